import { Daytona } from '@daytona/sdk'

// Daytona's own SDK, unmodified. DAYTONA_API_URL is the address of the front, DAYTONA_API_KEY a key of the daemon.
const daytona = new Daytona()
const sandbox = await daytona.create({ language: 'python', envVars: { GREETING: 'Hello' } })

// Code and commands
const code = await sandbox.process.codeRun('print("Hello from Python")')
console.log(code.result.trim())
const command = await sandbox.process.executeCommand('echo "$GREETING from a shell"; exit 3')
console.log(command.result.trim(), command.exitCode)

// Files
await sandbox.fs.createFolder('notes', '755')
await sandbox.fs.uploadFile(Buffer.from('a line\n'), 'notes/first.txt')
console.log((await sandbox.fs.downloadFile('notes/first.txt')).toString().trim())
console.log((await sandbox.fs.listFiles('notes')).map(({ name, size }) => `${name} ${size}`).join())
console.log((await sandbox.fs.findFiles('notes', 'line')).map(({ file, line }) => `${file}:${line}`).join())

// A session keeps its directory and variables. Follow the output of a background command.
await sandbox.process.createSession('build')
await sandbox.process.executeSessionCommand('build', { command: 'cd notes && export STEP=one' })
const { cmdId } = await sandbox.process.executeSessionCommand('build', {
  command: 'for i in 1 2 3; do echo "$STEP $i"; done; echo done >&2',
  runAsync: true,
})
let [stdout, stderr] = ['', '']
await sandbox.process.getSessionCommandLogs(
  'build',
  cmdId!,
  (text) => {
    stdout += text
  },
  (text) => {
    stderr += text
  },
)
console.log(stdout.trim().split('\n').join(', '), '|', stderr.trim())
await sandbox.process.deleteSession('build')

// A terminal
let screen = ''
const terminal = await sandbox.process.createPty({
  id: 'terminal',
  onData: (bytes) => {
    screen += new TextDecoder().decode(bytes)
  },
})
await terminal.sendInput('echo $((6 * 7)); exit\n')
console.log((await terminal.wait()).exitCode, screen.includes('42'))

// Git
await sandbox.git.clone('file:///workspace/none', 'nowhere').catch((error: Error) => console.log(error.name))
await sandbox.process.executeCommand('git init -q repo && echo x > repo/file')
await sandbox.git.add('repo', ['file'])
await sandbox.git.commit('repo', 'The first', 'Ann', 'ann@example.com')
console.log((await sandbox.git.status('repo')).fileStatus.length, 'changes left')

// A port of a private sandbox needs a token
await sandbox.process.createSession('server')
await sandbox.process.executeSessionCommand('server', {
  command: 'cd notes && python3 -m http.server 3000',
  runAsync: true,
})
const preview = await sandbox.getPreviewLink(3000)
let page = await visit()
while (!page.ok) page = await visit()
console.log((await page.text()).trim())

// Labels, a snapshot, and a sandbox created from it
await sandbox.setLabels({ team: 'docs' })
for await (const { id } of daytona.list({ labels: { team: 'docs' } })) console.log(id === sandbox.id)
await sandbox.createSnapshot('with-notes')
const copy = await daytona.create({ snapshot: 'with-notes' })
console.log((await copy.fs.downloadFile('notes/first.txt')).toString().trim())
await copy.delete()
await daytona.snapshot.delete('with-notes')

// A stopped sandbox keeps its disk.
await sandbox.stop()
await sandbox.start()
console.log((await sandbox.process.executeCommand('cat notes/first.txt')).result.trim(), sandbox.state)
await sandbox.delete()

function visit(): Promise<Response> {
  const headers = { 'x-daytona-preview-token': preview.token }
  return fetch(`${preview.url}/first.txt`, { headers })
}
