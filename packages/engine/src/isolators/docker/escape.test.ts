import { describe } from 'vitest'
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
