import { quoteArgs } from '@sandkasten/sdk'
import { durationText, timeText } from '../../format.ts'
import { facts, print, table } from '../../table.ts'
import { type ConnectOptions, connect, queryOf } from '../client/api.ts'
import { inputPrefix } from '../client/input.ts'

interface Exec {
  exec_id: string
  status: 'running' | 'done' | 'lost'
  shell: string | null
  command: string | string[]
  detached: boolean
  created_at: string
  ended_at: string | null
  result: { exit_code: number } | null
}

export interface ExecsOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  limit?: string
  wait?: number
  signal?: string
  eof?: boolean
}

export async function listCommands(id: string, options: ExecsOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/execs${queryOf({ limit: options.limit })}`
  const { execs } = await connection.json<{ execs: Exec[] }>('GET', path)
  print(options.json, execs, () =>
    table(
      [
        { title: 'ID', min: 36 },
        'STATUS',
        { title: 'STARTED', drop: 1 },
        { title: 'TOOK', drop: 2 },
        { title: 'COMMAND', min: 8 },
      ],
      execs
        .filter(({ exec_id }) => !exec_id.startsWith(inputPrefix))
        .map((exec) => [
          exec.exec_id,
          statusOf(exec),
          timeText(exec.created_at, options),
          took(exec),
          lineOf(exec),
        ]),
    ),
  )
  return 0
}

export async function getCommand(id: string, command: string, options: ExecsOptions): Promise<number> {
  const connection = await connect(options)
  const wait_ms = options.wait === undefined ? undefined : Math.round(options.wait * 1000)
  const path = `${await connection.session(id)}/execs/${encodeURIComponent(command)}${queryOf({ wait_ms })}`
  const exec = await connection.json<Exec>('GET', path)
  print(options.json, exec, () =>
    facts([
      ['id', exec.exec_id],
      ['status', statusOf(exec)],
      ['shell', exec.shell ?? (exec.detached ? 'none: detached' : 'none')],
      ['started', timeText(exec.created_at, options)],
      ['took', took(exec)],
      ['command', lineOf(exec)],
    ]),
  )
  return 0
}

export async function killCommand(id: string, command: string, options: ExecsOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/execs/${encodeURIComponent(command)}/signal`
  const body = { signal: options.signal === undefined ? undefined : signalName(options.signal) }
  const answer = await connection.json<{ signalled: boolean }>('POST', path, body)
  print(options.json, answer, () => `${command} ${answer.signalled ? 'signalled' : 'had already ended'}`)
  return 0
}

/** Sends stdin to a command that was started with `exec --detach --stdin`. */
export async function writeCommand(id: string, command: string, options: ExecsOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/execs/${encodeURIComponent(command)}/stdin`
  try {
    for await (const chunk of process.stdin)
      await connection.request('POST', path, { bytes: new Uint8Array(chunk) })
    if (options.eof) await connection.request('POST', `${path}?eof=true`, { bytes: new Uint8Array() })
  } finally {
    process.stdin.destroy()
  }
  return 0
}

const statusOf = ({ status, result }: Exec): string => (result ? `exit ${result.exit_code}` : status)

const lineOf = ({ command }: Exec): string => (typeof command === 'string' ? command : quoteArgs(command))

function took({ created_at, ended_at }: Exec): string | undefined {
  return ended_at === null ? undefined : durationText((Date.parse(ended_at) - Date.parse(created_at)) / 1000)
}

/** Accepts short and lower-case forms such as `kill` and `INT`. */
function signalName(text: string): string {
  const name = text.toUpperCase()
  return name.startsWith('SIG') ? name : `SIG${name}`
}
