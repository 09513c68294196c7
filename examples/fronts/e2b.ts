import { Sandbox } from 'e2b'

// E2B's own SDK, unmodified. It reads E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL.
const sandbox = await Sandbox.create({
  timeoutMs: 120_000,
  envs: { GREETING: 'Hello' },
  metadata: { user: 'ada' },
})

const { stdout } = await sandbox.commands.run('echo "$GREETING from a sandbox"')
console.log(stdout.trim())

await sandbox.files.write('notes/today.txt', 'sand, sea')
console.log(await sandbox.files.read('notes/today.txt'))
console.log((await sandbox.files.list('notes')).map(({ name }) => name))

const failed = await sandbox.commands.run('ls /nowhere').catch((error) => error)
console.log(failed.name, failed.exitCode)

const command = await sandbox.commands.run('for i in 1 2 3; do echo "line $i"; done', {
  background: true,
  onStdout: (text) => void process.stdout.write(text),
})
await command.wait()

await sandbox.pause()
const again = await Sandbox.connect(sandbox.sandboxId)
console.log(await again.files.read('notes/today.txt'))

const found = await Sandbox.list({ query: { metadata: { user: 'ada' } } }).nextItems()
console.log(found.length, await again.kill())
