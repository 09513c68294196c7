// Vercel's own SDK, unmodified. SANDKASTEN_VERCEL_URL is the address of the daemon's front.
import { onSandkasten } from '@sandkasten/sdk/vercel'
import * as vercel from '@vercel/sandbox'

const here = { url: process.env.SANDKASTEN_VERCEL_URL!, apiKey: process.env.SANDKASTEN_API_KEY! }
const { Sandbox } = onSandkasten(vercel, here)

const sandbox = await Sandbox.create({ ports: [3000], timeout: 10 * 60_000, env: { NAME: 'you' } })
console.log('status:', sandbox.status)

const echo = await sandbox.runCommand('sh', ['-c', 'echo "hello $NAME"; echo careful >&2; exit 3'])
console.log('echo:', echo.exitCode, JSON.stringify(await echo.stdout()), JSON.stringify(await echo.stderr()))

await sandbox.writeFiles([
  { path: 'src/answer.txt', content: 'forty-two' },
  { path: 'run.sh', content: '#!/bin/sh\ncat src/answer.txt\n', mode: 0o755 },
])
console.log('script:', await (await sandbox.runCommand('./run.sh')).stdout())
console.log('file:', String(await sandbox.readFileToBuffer({ path: 'src/answer.txt' })))
console.log('folder:', await sandbox.fs.readdir('.'))

const page =
  'require("http").createServer((_, answer) => answer.end("served\\n")).listen(3000, () => console.log("up"))'
const web = await sandbox.runCommand({ cmd: 'node', args: ['-e', page], detached: true })
for await (const line of web.logs()) if (line.data.includes('up')) break
// `sandbox.domain(3000)` always returns an address of Vercel. `sandbox.routes` has the address on your daemon.
const { url } = sandbox.routes.find((route) => route.port === 3000)!
console.log('port:', (await (await fetch(url)).text()).trim())
await web.kill('SIGKILL')
console.log('killed:', (await web.wait()).exitCode)

// A stopped sandbox keeps its disk. The next command starts it again.
await sandbox.stop()
console.log('stopped:', sandbox.status)
console.log('again:', await (await sandbox.runCommand('cat', ['src/answer.txt'])).stdout())

const snapshot = await sandbox.snapshot()
const copy = await Sandbox.create({ source: { type: 'snapshot', snapshotId: snapshot.snapshotId } })
console.log('copy:', String(await copy.readFileToBuffer({ path: 'src/answer.txt' })))
const fork = await Sandbox.fork({ sourceSandbox: sandbox.name })
console.log('fork:', await (await fork.runCommand('sh', ['-c', 'echo "$NAME"'])).stdout())

for (const one of [sandbox, copy, fork]) await one.delete()
await snapshot.delete()
console.log('left:', (await (await Sandbox.list()).toArray()).length)
