import { expect, it } from 'vitest'
import { specFor } from '../testing/cage.ts'
import { containerConfig } from './config.ts'

const input = {
  image: 'image:1',
  labels: { a: 'b' },
  reach: { how: 'bridge' },
  hidden: [],
  binds: [],
  seccomp: '{}',
  kind: 'docker',
  network: 'bridge',
} as const

it('by default there is no network and nothing of the machine is visible', () => {
  const closed = containerConfig({ ...input, spec: specFor('box', '/boxes/box') }).HostConfig!
  expect(closed).toMatchObject({
    NetworkMode: 'none',
    Privileged: false,
    CapDrop: ['ALL'],
    CapAdd: ['KILL', 'SETGID', 'SETUID'],
    Mounts: [],
    AutoRemove: false,
  })
  expect(closed.SecurityOpt).toEqual(['no-new-privileges', 'seccomp={}'])
  expect(closed).not.toHaveProperty('Binds')
  const open = containerConfig({ ...input, spec: specFor('box', '/boxes/box', { network: 'open' }) })
  expect(open.HostConfig!.NetworkMode).toBe('bridge')
})

it('limits are capped at the machine’s maximum', () => {
  const spec = specFor('box', '/boxes/box', { limits: { openFiles: 1_000_000 } })
  const { Ulimits } = containerConfig({ ...input, spec, maxOpenFiles: 20_000, maxProcesses: 7 }).HostConfig!
  expect(Ulimits).toEqual([
    { Name: 'nofile', Soft: 20_000, Hard: 20_000 },
    { Name: 'core', Soft: 0, Hard: 0 },
    { Name: 'nproc', Soft: 7, Hard: 7 },
  ])
})

it('an image’s own program, user, folder and health check have no effect', () => {
  const spec = specFor('box', '/boxes/box', { image: { reference: 'image:1' } })
  expect(containerConfig({ ...input, spec })).toMatchObject({
    User: '0:0',
    WorkingDir: '/',
    Cmd: [],
    Healthcheck: { Test: ['NONE'] },
    Env: ['LANG=C.UTF-8'],
  })
})
