import { ConnectionConfig, Sandbox, SandboxException, SandboxManager } from '@alibaba-group/opensandbox'

// OpenSandbox's own SDK, unmodified. OPEN_SANDBOX_DOMAIN is the address of the front, OPEN_SANDBOX_API_KEY a key of the daemon.
const config = new ConnectionConfig()
const sandbox = await Sandbox.create({
  connectionConfig: config,
  image: 'ubuntu',
  timeoutSeconds: 10 * 60,
  env: { GREETING: 'Hello' },
  metadata: { team: 'docs' },
})

// Commands with streaming output
const execution = await sandbox.commands.run("echo 'Hello Sandbox!'")
console.log(execution.logs.stdout[0]?.text)
const failed = await sandbox.commands.run('echo "$GREETING" >&2; exit 3', undefined, {
  onStderr: ({ text }) => console.log('stderr:', text),
})
console.log('exit code', failed.exitCode)

// A background command: its state and its output
const { id } = await sandbox.commands.run('echo working; sleep 1; echo done', { background: true })
while ((await sandbox.commands.getCommandStatus(id!)).running) await new Promise((go) => setTimeout(go, 100))
console.log((await sandbox.commands.getBackgroundCommandLogs(id!)).content.trim().split('\n').join(', '))

// A session keeps its directory and variables.
const session = await sandbox.commands.createSession({ workingDirectory: '/tmp' })
await sandbox.commands.runInSession(session, 'export STEP=one')
const run = await sandbox.commands.runInSession(session, 'echo "$STEP in $PWD"')
console.log(run.logs.stdout[0]?.text)
await sandbox.commands.deleteSession(session)

// Files
await sandbox.files.createDirectories([{ path: '/tmp/demo', mode: 755 }])
await sandbox.files.writeFiles([{ path: '/tmp/demo/hello.txt', data: 'Hello World', mode: 644 }])
await sandbox.files.replaceContents([
  { path: '/tmp/demo/hello.txt', oldContent: 'World', newContent: 'Files' },
])
console.log(await sandbox.files.readFile('/tmp/demo/hello.txt'))
const found = await sandbox.files.search({ path: '/tmp/demo', pattern: '*.txt' })
console.log(found.map(({ path, mode, size }) => `${path} ${mode} ${size}`).join())

// A port
await sandbox.commands.run('python3 -m http.server 8000', { background: true, workingDirectory: '/tmp/demo' })
const url = await sandbox.getEndpointUrl(8000)
let page = await fetch(`${url}/hello.txt`)
while (!page.ok) page = await fetch(`${url}/hello.txt`)
console.log(await page.text())

// State, metrics, pause, resume and renewal
console.log((await sandbox.getInfo()).status.state, (await sandbox.getMetrics()).memoryUsedMiB > 0)
await sandbox.pause()
console.log((await sandbox.getInfo()).status.state)
const resumed = await sandbox.resume()
await resumed.renew(30 * 60)

// A snapshot, a sandbox created from it, and a list
const manager = SandboxManager.create({ connectionConfig: config })
await resumed.commands.run('cp /tmp/demo/hello.txt ~/kept.txt')
const snapshot = await manager.createSnapshot(resumed.id, { name: 'greeting' })
const copy = await Sandbox.create({ connectionConfig: config, snapshotId: snapshot.id })
console.log((await copy.commands.run('cat ~/kept.txt')).logs.stdout[0]?.text)
const running = await manager.listSandboxInfos({ states: ['Running'], metadata: { team: 'docs' } })
console.log(running.items.length, running.items[0]?.id === sandbox.id)
await manager.deleteSnapshot(snapshot.id)

for (const one of [copy, resumed]) {
  await one.kill()
  await one.close()
}
try {
  await manager.getSandboxInfo(sandbox.id)
} catch (error) {
  if (error instanceof SandboxException) console.log(error.error.code, error.requestId !== undefined)
}
await manager.close()
