import path from 'node:path'
import { agentMount, type BootstrapProgress, bootstrapOpencode } from '@sandkasten/opencode'
import { type SandboxHandle, supports } from '@sandkasten/sdk'
import { expect, it } from 'vitest'
import { kindsAt } from '../../packages/cli/src/sandbox/open.ts'
import { temporaryPlace } from '../../packages/cli/test/sandbox/place.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { modelConfig } from '../../packages/opencode/src/testing/model-server.ts'

const missing = await isolationMissing()

it.skipIf(missing)(
  'a bootstrap in a sandbox with the mounted program copies nothing',
  async () => {
    await using stack = new AsyncDisposableStack()
    const place = await temporaryPlace()
    stack.defer(() => place.close())
    const kinds = kindsAt({ folder: path.join(place.home, 'engine') })
    const provider = kinds.find((kind) => kind.provider === 'engine')!.make({})
    stack.defer(async () => (provider as Partial<AsyncDisposable>)[Symbol.asyncDispose]?.())
    const mount = agentMount('opencode')
    expect(mount).toMatchObject({ target: '/opt/sandkasten/opencode' })
    const handle = await provider.create({
      providerOptions: { mounts: [mount] },
      resources: { memoryMb: 1536, vcpus: 2 },
    })
    stack.defer(async () => void (await handle.destroy()))
    const stages: BootstrapProgress['stage'][] = []
    const server = await bootstrapOpencode(handle, {
      config: modelConfig('http://127.0.0.1:9/v1'),
      onProgress: ({ stage }) => stages.push(stage),
    })
    expect(stages).toEqual(['inspect', 'start', 'wait', 'ready'])
    expect((await fetch(`${server.url}/global/health`, { headers: server.headers })).status).toBe(200)
  },
  120_000,
)

it.skipIf(missing)(
  'sandboxes of the engine share the program, and a bootstrap from a snapshot gets it again',
  async () => {
    await using stack = new AsyncDisposableStack()
    const place = await temporaryPlace()
    stack.defer(() => place.close())
    const kinds = kindsAt({ folder: path.join(place.home, 'engine') })
    const provider = kinds.find((kind) => kind.provider === 'engine')!.make({})
    stack.defer(async () => (provider as Partial<AsyncDisposable>)[Symbol.asyncDispose]?.())
    const config = modelConfig('http://127.0.0.1:9/v1')
    const resources = { memoryMb: 1536, vcpus: 2 }
    const sharedBy = async (handle: SandboxHandle) => {
      const server = await bootstrapOpencode(handle, { config })
      expect((await fetch(`${server.url}/global/health`, { headers: server.headers })).status).toBe(200)
      const { stdout } = await handle.runCommand({
        cmd: 'sh',
        args: ['-c', 'readlink ~/.local/bin/opencode'],
      })
      await server.stop()
      return stdout.trim()
    }
    const handle = await provider.create({ resources })
    stack.defer(async () => void (await handle.destroy()))
    const link = await sharedBy(handle)
    expect(link).toMatch(/^\/run\/sandkasten-files\/[0-9a-f]{64}$/)
    if (!supports(handle, 'snapshot')) throw new Error('no snapshots')
    const { snapshotId } = await handle.snapshot()
    const other = await provider.create({ snapshotId, resources })
    stack.defer(async () => void (await other.destroy()))
    expect(await sharedBy(other)).toBe(link)
  },
  120_000,
)

it('no program of another version is mounted', () => {
  expect(agentMount('opencode', { version: '0.0.1' })).toBeUndefined()
})
