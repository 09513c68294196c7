import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { HopxProvider } from '@sandkasten/sdk/hopx'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it, vi } from 'vitest'
import { shareHostLayers } from '../../../packages/engine/src/images/testing/shared-host.ts'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { leftoversOf, removeGateway } from '../../../packages/engine/src/provider/test-helper.ts'
import { HopxDouble } from './index.ts'
import { hopxNamesHere } from './names.ts'

/** The whole contract: our provider, the vendor's unmodified SDK, the double, real isolated sandboxes. */
const title = 'conformance: hopx (its own SDK, on a double over the engine with the isolator oci)'
const skipped = await reasonToSkip()
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

if (skipped !== undefined)
  describe(title, () => {
    it('every behaviour of the contract', ({ skip }) => skip(skipped))
  })
else {
  const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-hopx-'))
  await shareHostLayers(path.join(root, 'images'))
  const engine = new EngineProvider({ isolator: 'oci', root })
  const undo = hopxNamesHere()
  let double: HopxDouble
  const provider = () => new HopxProvider({ apiKey: double.apiKey, apiUrl: double.url })
  describe('on the double', () => {
    // Registered first, so it runs last: the kit ends its sandboxes before.
    afterAll(async () => {
      undo()
      await double?.stop()
      await engine.close()
      await removeGateway(root)
      await rm(root, { recursive: true, force: true })
    })
    conformance({
      title,
      runner: { describe, it, afterAll },
      async provider() {
        double = await HopxDouble.start({ engine, hosts: 'names' })
        return provider()
      },
      reopen: provider,
      limits: { behaviourMs: 170_000 },
      commands: posixCommands({ server: 'node' }),
      without: { version: 'Hopx has templates; a runtime is only the name of one' },
      leftovers(sandboxId) {
        const known = double.sandboxes.engineIds.get(sandboxId)
        if (known === undefined) throw new Error(`The double never had the sandbox ${sandboxId}.`)
        return leftoversOf(known)
      },
    })
  })
}
