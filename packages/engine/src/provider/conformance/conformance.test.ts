import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it } from 'vitest'
import { shareHostLayers } from '../../images/testing/shared-host.ts'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider, type EngineProviderOptions } from '../engine-provider.ts'
import { egressTargets, hostRuntimes, leftoversOf, removeGateway } from '../test-helper.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-engine-'))
const providers: EngineProvider[] = []
afterAll(async () => {
  await Promise.all(providers.map((provider) => provider.close()))
  await removeGateway(path.join(root, 'oci'))
  await rm(root, { recursive: true, force: true })
})

const { targets, close } = await egressTargets()
afterAll(close)

const runtimes = await hostRuntimes()
const skipped = await reasonToSkip('anyone')
if (skipped) {
  describe('conformance: engine (isolation: container)', () => {
    it('every behaviour of the contract', ({ skip }) => skip(skipped))
  })
} else {
  await shareHostLayers(path.join(root, 'oci/images'))
  run('oci', 'container')
}
// Independent of the account.
if (!process.env.SANDKASTEN_TEST_ACCOUNT) run('process', 'none')

function open(options: EngineProviderOptions): EngineProvider {
  const provider = new EngineProvider(options)
  providers.push(provider)
  return provider
}

function run(isolator: 'oci' | 'process', isolation: string): void {
  const options: EngineProviderOptions = { isolator, root: path.join(root, isolator) }
  conformance({
    title: `conformance: engine on ${isolator} (isolation: ${isolation})`,
    runner: { describe, it, afterAll },
    provider: () => open(options),
    reopen: () => open(options),
    commands: posixCommands({ server: 'node' }),
    runtimes: isolator === 'oci' ? runtimes : [],
    leftovers: (sandboxId) => leftoversOf(sandboxId),
    ...(isolator === 'oci' ? { egress: targets } : {}),
  })
}
