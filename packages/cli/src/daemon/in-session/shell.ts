import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { timeText } from '../../format.ts'
import { print, table } from '../../table.ts'
import { type Connection, type ConnectOptions, connect } from '../client/api.ts'
import { type Leaving, stay } from '../client/terminal-socket.ts'

export interface ShellOptions extends ConnectOptions {
  json?: boolean
  terminal?: string
  attach?: boolean
  list?: boolean
  kill?: string
  workdir?: string
  env?: Record<string, string>
  iso?: boolean
}

interface Terminal {
  terminal_id: string
  status: string
  created_at: string
}

/**
 * Connects the local terminal to a terminal in a session. The remote terminal belongs to the session: it survives
 * Ctrl-], a lost connection and a closed window, and a later visit shows the output since then.
 */
export async function shell(id: string, command: readonly string[], options: ShellOptions): Promise<number> {
  const connection = await connect(options)
  const base = `${await connection.session(id)}/terminals`
  if (options.list) return list(connection, base, options)
  if (options.kill !== undefined) return kill(connection, base, options.kill, options)
  const terminal = options.attach
    ? await newest(connection, base)
    : await named(connection, base, options.terminal ?? `cli-${randomId(8)}`, command, options)
  const left = await stay(connection, `${base}/${terminal}`)
  return tell(id, terminal, left, options)
}

async function list(connection: Connection, base: string, options: ShellOptions): Promise<number> {
  const { terminals } = await connection.json<{ terminals: Terminal[] }>('GET', base)
  print(options.json, terminals, () =>
    table(
      ['TERMINAL', 'STATUS', 'CREATED'],
      terminals.map(({ terminal_id, status, created_at }) => [
        terminal_id,
        status,
        timeText(created_at, options),
      ]),
    ),
  )
  return 0
}

async function kill(
  connection: Connection,
  base: string,
  name: string,
  options: ShellOptions,
): Promise<number> {
  const answer = await connection.json<{ killed: boolean }>('DELETE', `${base}/${encodeURIComponent(name)}`)
  print(options.json, answer, () => `${name} ${answer.killed ? 'ended' : 'had already ended'}`)
  return 0
}

async function newest(connection: Connection, base: string): Promise<string> {
  const { terminals } = await connection.json<{ terminals: Terminal[] }>('GET', base)
  const found = terminals.find(({ status }) => status === 'running')
  if (found) return found.terminal_id
  throw new SandboxError('not_found', 'No terminal runs in the session.', {
    hint: 'Open one: omit --attach.',
  })
}

/** A repeat with the same name returns the first terminal. */
async function named(
  connection: Connection,
  base: string,
  name: string,
  [cmd, ...args]: readonly string[],
  { workdir, env }: ShellOptions,
): Promise<string> {
  const { columns: cols = 80, rows = 24 } = process.stdout
  const terminal = await connection.json<Terminal>('POST', base, {
    terminal_id: name,
    cols,
    rows,
    ...(cmd === undefined ? {} : { cmd, args }),
    cwd: workdir,
    env,
  })
  if (terminal.status === 'running') return terminal.terminal_id
  throw new SandboxError('gone', `The terminal ${name} has ended.`, {
    hint: 'Choose another name for a new one.',
  })
}

function tell(id: string, terminal: string, left: Leaving, options: ShellOptions): number {
  if (options.json) console.log(JSON.stringify({ terminal_id: terminal, ...left }))
  else if (left.reason === 'taken')
    console.error('\r\nsandkasten: another client has taken over the terminal.')
  else if (left.reason === 'left')
    console.error(
      `\r\nsandkasten: detached; the terminal keeps running. Return with: sandkasten shell ${id} --terminal ${terminal}`,
    )
  return left.reason === 'exit' ? left.exit_code : 0
}
