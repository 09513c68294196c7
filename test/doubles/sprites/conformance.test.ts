import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { SpritesProvider } from '@sandkasten/sdk/sprites'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it } from 'vitest'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { EngineProvider } from '../../../packages/engine/src/provider/engine-provider.ts'
import { leftoversOf } from '../../../packages/engine/src/provider/test-helper.ts'
import { SpritesDouble } from './double.ts'

/** Our provider on the vendor's unmodified SDK, a double of the vendor's wire, and isolated sandboxes. */
const title = 'conformance: sprites (its SDK, a double of its wire, isolator oci)'
const skipped = await reasonToSkip()
if (skipped !== undefined)
  describe(title, () => {
    it('every behaviour of the contract', ({ skip }) => skip(skipped))
  })
else
  describe('through Sprites’ SDK', () => {
    const token = 'sprites-test-0123456789abcdef'
    let folder: string | undefined
    let engine: EngineProvider | undefined
    let double: SpritesDouble | undefined
    const provider = () => new SpritesProvider({ token, baseUrl: double!.url, env: {} })
    // Registered first, so it runs last: the kit ends its sandboxes before.
    afterAll(async () => {
      await double?.stop()
      await engine?.close()
      if (folder) await rm(folder, { recursive: true, force: true })
    })
    conformance({
      title,
      runner: { describe, it, afterAll },
      async provider() {
        folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-sprites-'))
        engine = new EngineProvider({ isolator: 'oci', root: folder })
        double = await SpritesDouble.start({ engine, token })
        return provider()
      },
      reopen: provider,
      commands: posixCommands({ server: 'node' }),
      leftovers: (sandboxId) => leftoversOf(double!.sandboxOf(sandboxId)),
    })
  })
