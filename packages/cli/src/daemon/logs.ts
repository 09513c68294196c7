import { SandboxError } from '@sandkasten/sdk'
import { type ConnectOptions, connect } from './api.ts'
import { eventsOf } from './events.ts'
import { print } from './table.ts'

export interface LogsOptions extends ConnectOptions {
  json?: boolean
  follow?: boolean
}

/** With `--json` one line for each event. Who leaves (Ctrl-C) leaves the command running. */
export async function logs(id: string, command: string | undefined, options: LogsOptions): Promise<number> {
  return command === undefined ? sessionLogs(id, options) : commandLogs(id, command, options)
}

async function commandLogs(id: string, command: string, options: LogsOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/execs/${encodeURIComponent(command)}/output`
  const response = await connection.request('GET', path)
  for await (const { event, data } of eventsOf(response)) {
    if (event === 'problem') throw new SandboxError('provider_error', data.detail ?? 'The stream broke off.')
    if (options.json) console.log(JSON.stringify({ event, ...data }))
    else if (event !== 'exit')
      (event === 'stderr' ? process.stderr : process.stdout).write(
        data.text ?? Buffer.from(data.base64 ?? '', 'base64'),
      )
    if (event === 'exit') return 0
  }
  throw new SandboxError('connection_lost', 'The stream ended before the command did.')
}

interface Happened {
  id: number
  type: string
  data: Record<string, unknown>
  created_at: string
}

async function sessionLogs(id: string, options: LogsOptions): Promise<number> {
  const connection = await connect(options)
  // An id that does not exist is an error, not an empty list.
  const { id: session_id } = await connection.json<{ id: string }>('GET', await connection.session(id))
  const show = (event: Happened) =>
    options.json
      ? console.log(JSON.stringify(event))
      : print(false, event, () => `${event.created_at}  ${event.type}  ${JSON.stringify(event.data)}`)
  const query = (after: number) => new URLSearchParams({ session_id, after: String(after) })
  let after = 0
  for (;;) {
    const page = await connection.json<{ events: Happened[] }>('GET', `/v1/events?${query(after)}&limit=1000`)
    for (const event of page.events) show(event)
    after = page.events.at(-1)?.id ?? after
    if (page.events.length < 1000) break
  }
  if (!options.follow) return 0
  for await (const { event, data } of eventsOf(
    await connection.request('GET', `/v1/events?${query(after)}`),
  )) {
    if (event === 'problem') throw new SandboxError('provider_error', data.detail ?? 'The stream broke off.')
    show(data as unknown as Happened)
  }
  throw new SandboxError('connection_lost', 'The daemon has ended the stream.')
}
