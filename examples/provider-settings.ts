import { SandboxError } from '@sandkasten/sdk'
import { createProvider, providerKinds } from '@sandkasten/sdk/auto'

// What to ask for: names, flags and variables of the settings, and which of them are secret.
const vercel = providerKinds.find(({ provider }) => provider === 'vercel')
for (const { name, flag, variable, secret } of vercel?.fields ?? [])
  if (variable) console.log(name, `--${flag}`, variable, secret ? 'secret' : '')

// Settings are strings, for example from a store of credentials. Errors never contain a value.
const provider = createProvider('daemon', { url: 'http://127.0.0.1:8080', apiKey: 'sk-example' })
console.log(provider.name)
try {
  createProvider('vercel', { token: 'a token' })
} catch (error) {
  if (SandboxError.is(error)) console.log(error.message, error.details)
}
