import { EngineProvider } from '@sandkasten/engine'

const provider = new EngineProvider()
const sandbox = await provider.create({ envVars: { GREETING: 'Hello' }, resources: { memoryMb: 256 } })

// Write a file and run it. A non-zero exit code is a result, not an error.
await sandbox.writeFile('greet.sh', 'echo "$GREETING, $1!"; exit 3')
const { stdout, exitCode } = await sandbox.runCommand({ cmd: 'sh', args: ['greet.sh', 'agent'] })
console.log(stdout.trim(), exitCode)

// A shell keeps its directory, variables and background jobs.
const shell = await sandbox.openShell()
await shell.exec('mkdir -p project && cd project && export NAME=sandbox')
console.log((await shell.exec('echo "$NAME is in $(basename $PWD)"')).output.trim())

// Stream the output of a process. Every event has a number; pass it as `after` to resume.
const counter = await sandbox.spawn({ cmd: 'seq', args: ['3'] })
for await (const event of counter.output()) console.log(event.seq, event.type)

await sandbox.destroy()
