import { SandboxClient } from '@sandkasten/sdk/client'

// Reads SANDKASTEN_URL and SANDKASTEN_API_KEY.
const client = new SandboxClient()
const session = await client.createSession({ ttlSeconds: 600 })

// The shell keeps its state, also when the daemon restarts.
await session.exec('mkdir -p project && cd project && export NAME=session')
const { exitCode, output } = await session.exec('echo "$NAME in $(basename $PWD)"; (exit 3)')
console.log(exitCode, output.trim())

// Files of any size.
await session.write('project/note.txt', 'kept')
console.log(new TextDecoder().decode(await session.read('project/note.txt')))

// A background program. Its output is numbered, so reading resumes after a lost connection.
const counter = await session.start('seq', { args: ['3'] })
for await (const event of counter.output()) if (event.type === 'exit') console.log('exit', event.exitCode)

await session.destroy()
