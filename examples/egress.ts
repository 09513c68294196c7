import { placeholder, type SandboxProvider, secret, supports } from '@sandkasten/sdk'
import { MemoryProvider } from '@sandkasten/sdk/memory'

// The memory provider keeps policies and enforces none. Use a provider that does: the engine, a daemon, E2B, …
const provider: SandboxProvider = new MemoryProvider()

const sandbox = await provider.create({
  network: {
    allow: ['github.com', '*.githubusercontent.com', 'api.github.com', 'github.com:22'],
    deny: ['198.51.100.0/24'],
    transform: [
      {
        match: { host: 'api.github.com' },
        headers: { authorization: secret('github', { prefix: 'Bearer ' }) },
      },
    ],
  },
  // For programs that refuse to start without a credential. It is no secret.
  envVars: { GITHUB_TOKEN: placeholder('github') },
})
console.log(JSON.stringify(sandbox.network))

// While it runs. Connections that the new policy does not allow are closed.
if (supports(sandbox, 'egress')) await sandbox.setNetwork({ allow: ['registry.example.com'] })
await sandbox.setNetwork('none')
console.log(sandbox.network)

// Wrong rules are refused before anything is created.
await provider.create({ network: { allow: ['https://github.com/'] } }).catch((error) => {
  console.log(error.message, error.hint)
})
