import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Docker from 'dockerode'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { file, tar } from '../images/testing/tar.ts'
import {
  dockerMissing,
  type PrivateDaemon,
  removeDaemonFolder,
  startDockerd,
} from '../isolators/docker/testing/daemons.ts'
import { EngineProvider } from './engine-provider.ts'

const missing = dockerMissing()
const folder = mkdtempSync(join(tmpdir(), 'skt-runtimes-'))
let daemon: PrivateDaemon | undefined

beforeAll(async () => {
  if (missing === undefined) daemon = await startDockerd(folder)
}, 60_000)
afterAll(async () => {
  await daemon?.stop()
  removeDaemonFolder(folder)
}, 60_000)
beforeEach(({ skip }) => {
  if (missing !== undefined) skip(missing)
})

it('finds an image of the daemon by the version that it states', async () => {
  const { socketPath } = daemon!
  const docker = new Docker({ socketPath })
  const add = async (repo: string, env: string) => {
    const { Readable } = await import('node:stream')
    const layer = Readable.from([tar([file('x', 'x')])])
    const answer = await docker.importImage(layer, { repo, changes: [`ENV ${env}`] })
    for await (const _ of answer);
  }
  await add('acme/node:99-slim', 'NODE_VERSION=99.1.0')
  await add('acme/node:99', 'NODE_VERSION=99.1.0')
  await add('acme/other:1', 'NODE_VERSION=$(id)')
  await using provider = new EngineProvider({
    isolator: 'docker',
    root: join(folder, 'root'),
    docker: { socketPath },
    defaults: { image: 'acme/other:1' },
  })
  expect(await provider.imageForRuntime('node99')).toBe('acme/node:99')
  expect(await provider.imageForRuntime('node99', ['acme/node:99-slim'])).toBe('acme/node:99-slim')
  // The image `host` does not count: the default image says that the daemon may be on another machine.
  await expect(provider.create({ runtime: 'python4' })).rejects.toMatchObject({
    code: 'unsupported',
    details: { available: ['node99'] },
    hint: expect.stringContaining('acme/node:99 has node99'),
  })
})
