import { statSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { escapeCorpus } from '../testing/escape.ts'
import { refusedCalls } from '../testing/escape-calls.ts'
import { openDockerCage } from './testing/cage.ts'
import { dockerMissing, podmanMissing } from './testing/daemons.ts'

describe('out of a container of Docker', () => {
  escapeCorpus(() => openDockerCage('docker'), dockerMissing())
})

describe('out of a container of Docker that remaps ids', () => {
  escapeCorpus(() => openDockerCage('docker', { remap: true }), dockerMissing())
})

describe('system calls in a container of Docker', () => {
  refusedCalls(() => openDockerCage('docker'), dockerMissing())
})

describe('out of a container of Podman', () => {
  escapeCorpus(() => openDockerCage('podman'), podmanMissing())
})

describe('out of a container of Podman with ids of its own', () => {
  escapeCorpus(() => openDockerCage('podman', { remap: true }), podmanMissing())
})

describe('system calls in a container of Podman', () => {
  refusedCalls(() => openDockerCage('podman'), podmanMissing())
})

it.for([
  ['docker', dockerMissing()],
  ['podman', podmanMissing()],
] as const)(
  'the machine’s own /dev/null stays root’s: %s with remapped ids',
  { timeout: 120_000 },
  async ([kind, reason], { skip }) => {
    if (reason !== undefined) skip(reason)
    await using cage = await openDockerCage(kind, { remap: true })
    const box = await cage.start()
    expect((await box.sh('echo x > /dev/null; stat -c %a /dev/null')).out).toBe('666')
    await box.sandbox.kill()
    const { uid, gid, mode } = statSync(`${cage.daemon.root}/dev/null`)
    expect([uid, gid, mode & 0o777]).toEqual([0, 0, 0o666])
  },
)
