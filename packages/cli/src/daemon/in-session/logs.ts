import { SandboxError } from '@sandkasten/sdk'
import { write } from '../../output.ts'
import { type ConnectOptions, connect, queryOf } from '../client/api.ts'
import { bytesOf, eventsOf } from '../client/events.ts'
import { events, idOf } from '../manage/records.ts'

export interface LogsOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  follow?: boolean
  after?: string
}

/** With `--json`, prints one line per event. Ctrl-C leaves the command running. */
export async function logs(id: string, command: string | undefined, options: LogsOptions): Promise<number> {
  const connection = await connect(options)
  if (command === undefined) {
    const session = await idOf(connection, id)
    return events(connection, { ...options, session }, session)
  }
  const query = queryOf({ after: options.after })
  const path = `${await connection.session(id)}/execs/${encodeURIComponent(command)}/output${query}`
  for await (const received of eventsOf(await connection.request('GET', path))) {
    const { event, data } = received
    if (options.json) console.log(JSON.stringify({ event, ...data }))
    else if (event !== 'exit')
      await write(event === 'stderr' ? process.stderr : process.stdout, bytesOf(received))
    if (event === 'exit') return 0
  }
  throw new SandboxError('connection_lost', 'The stream ended before the command did.')
}
