import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { testedRuntime } from '../../../packages/engine/src/isolators/oci/testing/runtimes.ts'
import { closeAll } from '../world/close.ts'
import { type Engine, openEngine } from '../world/engine.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'
import { closedPolicy } from './trial.ts'

const runtime = testedRuntime('runsc')
const missing = worldMissing() ?? (await reasonToSkip('root', runtime))

/** gVisor's own network stack has no transparent sockets, so there is nothing that a gateway could serve. */
describe.skipIf(missing)(`ways out: oci in a gVisor${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let world: World
  let engine: Engine
  beforeAll(async () => {
    world = await openWorld({ sniff: false })
    engine = await openEngine(world, { oci: { runtime } })
  }, 60_000)
  afterAll(() => closeAll(engine, world))

  it('do not exist: a policy is refused', async () => {
    await expect(engine.create({ network: closedPolicy })).rejects.toMatchObject({ code: 'unsupported' })
  })
})
