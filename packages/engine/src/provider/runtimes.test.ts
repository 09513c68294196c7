import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { reasonToSkipAnyone, type TestStore, testStore, writeLayout } from '../images/testing/image.ts'
import { file, folder, symlink, tar } from '../images/testing/tar.ts'
import { staticBusybox } from '../images/testing/tools.ts'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { EngineProvider } from './engine-provider.ts'

const skipped = reasonToSkipAnyone ?? (await reasonToSkip('anyone'))
const busybox = staticBusybox()
const image = 'acme/node:99'

let bench: TestStore
let provider: EngineProvider

beforeAll(async () => {
  if (skipped) return
  bench = await testStore()
  provider = new EngineProvider({ isolator: 'oci', root: bench.root, runtimes: { node88: image } })
  if (!busybox) return
  const layer = tar([
    folder('bin'),
    file('bin/busybox', readFileSync(busybox), { mode: 0o755 }),
    symlink('bin/sh', 'busybox'),
    folder('usr'),
    folder('usr/local'),
    folder('usr/local/bin'),
    file('usr/local/bin/node', '#!/bin/sh\necho v99.3.0\n', { mode: 0o755 }),
  ])
  const layout = join(bench.root, 'layout')
  writeLayout(layout, { layers: [layer], config: { Env: ['NODE_VERSION=99.3.0'] }, name: image })
  await bench.store.import(layout, { name: image })
})
afterAll(async () => {
  if (skipped) return
  // Removes leftovers of a failed test.
  for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
  await provider.close()
  bench[Symbol.dispose]()
})
beforeEach(({ skip }) => {
  if (skipped) skip(skipped)
})

it('uses the image host for the versions that its sandboxes have, and names them otherwise', async ({
  skip,
}) => {
  const failure = await provider.create({ runtime: 'node4' }).catch((error: unknown) => error)
  expect(SandboxError.is(failure, 'unsupported'), String(failure)).toBe(true)
  const { details, hint } = failure as SandboxError
  const error = await provider.imageForRuntime('node4', ['host']).catch((thrown: SandboxError) => thrown)
  const here = (error as SandboxError).details.available as string[]
  if (here.length === 0) skip('neither Node.js nor Python is in the /usr of this machine')
  expect(details.available).toEqual(expect.arrayContaining(here))
  expect(hint).toContain(`host has ${here.join(' and ')}`)
  for (const runtime of here) {
    const sandbox = await provider.create({ runtime })
    const [, program, version] = /^([a-z]+)(.+)$/.exec(runtime)!
    const cmd = program === 'python' ? 'python3' : program!
    const { stdout } = await sandbox.runCommand({ cmd, args: ['--version'] })
    expect(stdout.replace(/^(v|Python )/, '')).toMatch(`${version}.`)
    await sandbox.destroy()
  }
  expect(await provider.list()).toEqual([])
})

it('finds an image of the store by the program in it, or by the option runtimes', async ({ skip }) => {
  if (!busybox) skip('needs a static busybox: npm test fetches it on Debian')
  const [byProgram, byOption] = await Promise.all(
    ['node99', 'node88'].map((runtime) => provider.create({ runtime })),
  )
  const { stdout } = await byProgram!.runCommand({ cmd: 'node', args: ['--version'] })
  expect(stdout).toBe('v99.3.0\n')
  expect((await byOption!.runCommand({ cmd: 'node' })).stdout).toBe('v99.3.0\n')
  await expect(provider.imageForRuntime('node99', ['host'])).rejects.toMatchObject({ code: 'unsupported' })
  await expect(provider.imageForRuntime('node88', ['host'])).rejects.toMatchObject({ code: 'unsupported' })
  expect(await provider.imageForRuntime('node99', ['host', image])).toBe(image)
  for (const sandbox of [byProgram, byOption]) await sandbox!.destroy()
})
