/**
 * A user's process with Vercel's SDK, whose sandbox ends during a command. Prints what the SDK threw; an unhandled
 * rejection ends the process with an error, as in any Node program.
 */
import { Sandbox } from '@vercel/sandbox'

type Ending = 'stop' | 'delete' | 'snapshot' | 'expire'
type Reader = 'logs' | 'command' | 'piped' | 'wait' | 'output'

const { FRONT: front, KEY: token, RUNS: runs } = process.env as Record<string, string>
const access = {
  token: token!,
  teamId: 'team',
  projectId: 'project',
  fetch: ((url, init) =>
    fetch(String(url).replace('https://vercel.com/api', front!), init)) as typeof globalThis.fetch,
}
const line = ['-c', 'echo one; sleep 600']

async function run(ending: Ending, reader: Reader): Promise<object> {
  const timeout = ending === 'expire' ? 2500 : 600_000
  const persistent = !reader.startsWith('piped')
  const sandbox = await Sandbox.create({ ...access, timeout, persistent, networkPolicy: 'deny-all' })
  const seen = Promise.withResolvers<void>()
  const note = { write: (text: string) => void (text.includes('one') && seen.resolve()), emit: () => true }
  const stdout = note as unknown as NodeJS.WritableStream as never
  const read = async () => {
    if (reader === 'command' || reader === 'piped')
      return sandbox.runCommand({ cmd: 'sh', args: line, stdout })
    const command = await sandbox.runCommand({ cmd: 'sh', args: line, detached: true })
    if (reader !== 'logs') setTimeout(seen.resolve, 300)
    if (reader === 'wait') return command.wait()
    if (reader === 'output') return command.output()
    for await (const { data } of command.logs()) note.write(data as string)
    return 'ended'
  }
  const reading = read().then(
    (value) => ({
      value: value instanceof Object ? { exitCode: (value as { exitCode?: number }).exitCode } : value,
    }),
    (error: Error & { code?: string; response?: Response; json?: { error?: { code?: string } } }) => ({
      error: error.name,
      code: error.code ?? error.json?.error?.code,
      status: error.response?.status,
    }),
  )
  await seen.promise
  const end = {
    stop: () => sandbox.stop(),
    delete: () => sandbox.delete(),
    snapshot: () => sandbox.snapshot(),
  }
  if (ending !== 'expire') await end[ending]()
  const result = await reading
  if (ending !== 'delete') await sandbox.delete().catch(() => {})
  return { ending, reader, ...result }
}

const results = runs!.split(' ').map((each) => {
  const [ending, reader] = each.split('/') as [Ending, Reader]
  return run(ending, reader)
})
for (const result of await Promise.all(results)) console.log(JSON.stringify(result))
// Gives pending rejections time to surface.
await new Promise((resolve) => setTimeout(resolve, 300))
