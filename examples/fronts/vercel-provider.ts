import { VercelProvider } from '@sandkasten/sdk/vercel'

const provider = new VercelProvider({
  token: process.env.SANDKASTEN_API_KEY!,
  teamId: 'mine',
  projectId: 'mine',
  // Leave this out to use Vercel.
  baseUrl: process.env.SANDKASTEN_VERCEL_URL!,
})

const sandbox = await provider.getOrCreate({ name: 'my project', lifetimeMs: 10 * 60_000 })
await sandbox.files.writeFile('note.txt', 'kept')
const { stdout, exitCode } = await sandbox.runCommand({ cmd: 'cat', args: ['note.txt'] })
console.log(exitCode, stdout)
await sandbox.destroy()
