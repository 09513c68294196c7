import { type SandboxHandle, type SandboxProvider, supports } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { MemoryProvider } from '@sandkasten/sdk/memory'

// One type holds every provider.
const providers = new Map<string, SandboxProvider>([
  ['local', new LocalProvider({ acceptNoIsolation: true })],
  ['memory', new MemoryProvider()],
])

// And one holds every handle. All methods compile; a missing ability throws `unsupported`, so ask first.
async function freeze(handle: SandboxHandle): Promise<string> {
  if (!supports(handle, 'pause')) return `${handle.provider} cannot pause`
  await handle.pause()
  return `${handle.provider}: ${await handle.status()}`
}

for (const provider of providers.values()) {
  const handle = await provider.create()
  console.log(await freeze(handle))
  await handle.destroy()
}
