import { EngineProvider } from '@sandkasten/engine'

// Isolates, or throws an error that names what is missing on this machine.
const provider = new EngineProvider({ isolator: 'auto' })
const sandbox = await provider.create({ lifetimeMs: 60_000 })

const shell = await sandbox.openShell({ name: 'main' })
await shell.exec('cd /tmp && export NAME=engine')

// Another process finds the same sandbox, the same shell and its state.
const again = await provider.get(sandbox.id)
console.log((await (await again.openShell({ name: 'main' })).exec('echo "$NAME"')).output.trim())

await sandbox.destroy()
