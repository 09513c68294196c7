import { EngineProvider } from '@sandkasten/engine'
import { modelNetwork, runAgent } from '@sandkasten/opencode'

// The key stays on this machine. The sandbox has a placeholder, and the key is added to its requests to this host.
const provider = new EngineProvider({ secrets: { anthropic: process.env.ANTHROPIC_API_KEY ?? '' } })
const sandbox = await provider.create({
  network: modelNetwork({ url: 'https://api.anthropic.com', secret: 'anthropic', header: 'x-api-key' }),
  resources: { memoryMb: 2048, vcpus: 2 },
})

const { text, sessionId } = await runAgent(sandbox, 'claude', 'Write a haiku about tests to haiku.md.', {
  credentials: [{ variable: 'ANTHROPIC_API_KEY', secret: 'anthropic' }],
  onEvent: (event) => console.error(event.type, event.type === 'tool' ? event.tool : ''),
})
console.log(text, sessionId !== undefined)
console.log((await sandbox.readFile('haiku.md')).toString())
await sandbox.destroy()
