import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it } from 'vitest'
import { shareHostLayers } from '../../images/testing/shared-host.ts'
import { isolationOf, type RuntimeKind } from '../../isolators/oci/launch/runtime.ts'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { testedRuntime } from '../../isolators/oci/testing/runtimes.ts'
import { EngineProvider } from '../engine-provider.ts'
import { egressTargets, hostRuntimes, leftoversOf, removeGateway } from '../test-helper.ts'

/** The conformance kit on the isolator `oci` with this runtime. */
export async function runtimeKit(kind: RuntimeKind): Promise<void> {
  const runtime = testedRuntime(kind)
  const title = `conformance: engine on ${kind} (isolation: ${isolationOf({ runtime })})`
  const skipped = await reasonToSkip('root', runtime)
  if (skipped) {
    describe(title, () => {
      it('every behaviour of the contract', ({ skip }) => skip(skipped))
    })
    return
  }
  const { targets, close } = await egressTargets()
  afterAll(close)
  const root = await mkdtemp(path.join(tmpdir(), `sandkasten-${kind}-`))
  await shareHostLayers(path.join(root, 'images'))
  const providers: EngineProvider[] = []
  const open = () => {
    const provider = new EngineProvider({ isolator: 'oci', root, oci: { runtime } })
    providers.push(provider)
    return provider
  }
  conformance({
    title,
    runner: { describe, it, afterAll },
    provider: open,
    reopen: open,
    commands: posixCommands({ server: 'node' }),
    runtimes: await hostRuntimes(),
    leftovers: (sandboxId) => leftoversOf(sandboxId),
    egress: targets,
  })
  afterAll(async () => {
    await Promise.all(providers.map((provider) => provider.close()))
    await removeGateway(root)
    await rm(root, { recursive: true, force: true })
  })
}
