import { quoteArgs, SandboxError } from '@sandkasten/sdk'
import { type ConnectOptions, connect } from './api.ts'
import { eventsOf } from './events.ts'

export interface ExecOptions extends ConnectOptions {
  json?: boolean
  shell?: string
  timeout?: number
}

/** A command in a session's shell, its output as it comes. One argument is a shell line, several are quoted. */
export async function exec(id: string, command: readonly string[], options: ExecOptions): Promise<number> {
  const connection = await connect(options)
  const body = {
    cmd: command.length === 1 ? command[0]! : quoteArgs(command),
    ...(options.shell === undefined ? {} : { shell: options.shell }),
    ...(options.timeout === undefined ? {} : { timeout_ms: Math.round(options.timeout * 1000) }),
  }
  const path = `${await connection.session(id)}/exec`
  if (options.json) {
    const result = await connection.json<{ exit_code: number }>('POST', path, body)
    console.log(JSON.stringify(result, null, 2))
    return result.exit_code
  }
  const response = await connection.request('POST', path, body, { accept: 'text/event-stream' })
  for await (const { event, data } of eventsOf(response)) {
    if (event === 'output') process.stdout.write(data.text ?? Buffer.from(data.base64 ?? '', 'base64'))
    if (event === 'problem') throw new SandboxError('provider_error', data.detail ?? 'The stream broke off.')
    if (event !== 'exit') continue
    if (data.timed_out) console.error('sandkasten: the command was ended because its time was over.')
    return data.exit_code ?? 125
  }
  throw new SandboxError('connection_lost', 'The stream ended before the command did.')
}
