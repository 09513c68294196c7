import { type SandboxCore, SandboxError, supports } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'

const provider = new LocalProvider({ acceptNoIsolation: true })

// The type of the provider is known, so a missing ability does not compile: sandbox.pause() is an error here.
const sandbox = await provider.create({ name: 'abilities', labels: { example: 'yes' } })

// With an unknown provider, ask first. Inside the `if`, the methods exist.
async function save(any: SandboxCore): Promise<string> {
  if (!supports(any, 'snapshot')) return 'cannot be saved'
  const { snapshotId } = await any.snapshot()
  await provider.deleteSnapshot(snapshotId)
  return 'saved'
}
console.log(await save(sandbox))

// All errors have one class. `code` is for programs, `message` and `hint` are for people.
try {
  await sandbox.runCommand({ cmd: 'no-such-program' })
} catch (error) {
  if (SandboxError.is(error, 'command_not_found')) console.log(error.code)
}

// A restricted view for the tools of an agent: it cannot destroy the sandbox or open ports.
const view = sandbox.restricted()
const { stdout: said } = await view.runCommand({ cmd: 'echo', args: ['from the tool'] })
console.log(said.trim(), 'destroy' in view)

// Another process finds the sandbox by its name, and the process by its id.
await sandbox.spawn({ cmd: 'sh', args: ['-c', 'echo from before; exit 4'], detached: true, execId: 'job' })
const again = await provider.getOrCreate({ name: 'abilities' })
const { stdout, exitCode } = await (await again.getProcess('job')).wait()
console.log(again.id === sandbox.id, stdout.trim(), exitCode)

console.log((await provider.list({ labels: { example: 'yes' } })).length)
await sandbox.destroy()
