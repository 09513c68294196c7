import { EngineProvider } from '@sandkasten/engine'

// Isolates, or throws an error that says what is missing on this machine.
const provider = new EngineProvider({ isolator: 'auto' })
const sandbox = await provider.create({ lifetimeMs: 60_000 })

const shell = await sandbox.openShell({ name: 'main' })
await shell.exec('cd /tmp && export NAME=engine')

// Another process finds the same sandbox and the same shell, with its state.
const again = await provider.get(sandbox.id)
const sameShell = await again.openShell({ name: 'main' })
console.log((await sameShell.exec('echo "$NAME"')).output.trim())

await sandbox.destroy()
