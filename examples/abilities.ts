import { type SandboxCore, SandboxError, supports } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'

const provider = new LocalProvider({ acceptNoIsolation: true })

// With the provider known, an absent ability does not compile: sandbox.pause() is an error here.
const sandbox = await provider.create({ name: 'abilities', labels: { example: 'yes' } })

// Where it is not known, ask; inside the `if` the methods are there.
async function save(any: SandboxCore): Promise<string> {
  if (!supports(any, 'snapshot')) return 'cannot be saved'
  const { snapshotId } = await any.snapshot()
  await provider.deleteSnapshot(snapshotId)
  return 'saved'
}
console.log(await save(sandbox))

// A failure is one class with a code, and a hint that says what to change.
try {
  await sandbox.runCommand({ cmd: 'no-such-program' })
} catch (error) {
  if (SandboxError.is(error, 'command_not_found')) console.log(error.message, error.hint)
}

// A view for an agent's tools: it can work, and cannot end or open the sandbox.
const view = sandbox.restricted()
const said = await view.runCommand({ cmd: 'echo', args: ['from the tool'] })
console.log(said.stdout.trim(), 'destroy' in view)

// What is found again later, by another process: the sandbox by its name, a process by its id.
await sandbox.spawn({ cmd: 'sh', args: ['-c', 'echo from before; exit 4'], detached: true, execId: 'job' })
const again = await provider.getOrCreate({ name: 'abilities' })
const { stdout, exitCode } = await (await again.getProcess('job')).wait()
console.log(again.id === sandbox.id, stdout.trim(), exitCode)

console.log((await provider.list({ labels: { example: 'yes' } })).length)
await sandbox.destroy()
