/** A registry with one sandbox, and the broker of its tools: arguments are the engine's options and a folder. */
import { EngineProvider } from '@sandkasten/engine'
import { brokerPlace, createPlace, Handles, startBroker } from '@sandkasten/mcp/broker'
import { openRegistry } from '@sandkasten/registry'
import { defineProviderKind } from '@sandkasten/sdk/auto'
import { serve } from '../worker.ts'

const [engine, folder] = process.argv.slice(2)
const kind = defineProviderKind({
  provider: 'engine',
  title: 'the engine of the benchmark',
  fields: {},
  make: () => new EngineProvider(JSON.parse(engine!)),
})
const registry = await openRegistry({ dataDir: folder!, kinds: [kind], defaultProvider: 'engine' })
const place = brokerPlace(folder!)
await createPlace(place)
const broker = await startBroker({ registry, place })
const sandboxes = registry.in()

serve({
  async open() {
    await sandboxes.create({ name: 'bench' })
    const { id, providerSandboxId } = await sandboxes.get('bench')
    const token = await new Handles(place.handles).create({
      sandboxId: id,
      name: 'bench',
      scope: sandboxes.scope,
    })
    const text = JSON.stringify({ sandboxId: providerSandboxId, address: place.socket, token })
    return { ms: 0, text }
  },
  async close() {
    await broker.close()
    await sandboxes.destroy('bench', { force: true })
    await registry.close()
    return { ms: 0 }
  },
})
