import { LocalProvider } from '@sandkasten/sdk/local'

// A folder of this machine as a sandbox. Every other provider works the same way.
const provider = new LocalProvider({ acceptNoIsolation: true })
const sandbox = await provider.create({ envVars: { GREETING: 'Hello' } })

// Files and commands. An exit code is a result, not an error.
await sandbox.writeFile('greet.sh', 'echo "$GREETING, $1!"; exit 3')
const { stdout, exitCode } = await sandbox.runCommand({ cmd: 'sh', args: ['greet.sh', 'you and me'] })
console.log(stdout.trim(), exitCode)

// A shell that keeps its state.
const shell = await sandbox.openShell()
await shell.exec('mkdir -p project && cd project && export NAME=sandbox')
console.log((await shell.exec('echo "$NAME is in $(basename $PWD)"')).output.trim())

// A running process.
const counter = await sandbox.spawn({ cmd: 'seq', args: ['3'] })
for await (const event of counter.output()) console.log(event.seq, event.type)

await sandbox.destroy()
