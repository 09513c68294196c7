import path from 'node:path'
import { agentMount, type BootstrapProgress, bootstrapOpencode } from '@sandkasten/opencode'
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

it('no program of another version is mounted', () => {
  expect(agentMount('opencode', { version: '0.0.1' })).toBeUndefined()
})
