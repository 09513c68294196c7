import { timeText } from '../../format.ts'
import { print, table } from '../../table.ts'
import { type ConnectOptions, connect } from '../client/api.ts'
import { given } from '../manage/sessions.ts'

interface Shell {
  name: string
  cwd: string
  running: { exec_id: string | null; command: string; started_at: string } | null
  waiting: number
}

export interface ShellsOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  workdir?: string
  login?: boolean
  env?: Record<string, string>
}

export async function listShells(id: string, options: ShellsOptions): Promise<number> {
  const connection = await connect(options)
  const { shells } = await connection.json<{ shells: Shell[] }>(
    'GET',
    `${await connection.session(id)}/shells`,
  )
  print(options.json, shells, () =>
    table(
      [
        { title: 'NAME', min: 8 },
        { title: 'FOLDER', min: 12 },
        { title: 'RUNS', min: 8 },
        { title: 'SINCE', drop: 2 },
        { title: 'WAITING', drop: 1 },
      ],
      shells.map(({ name, cwd, running, waiting }) => [
        name,
        cwd,
        running?.command,
        timeText(running?.started_at, options),
        waiting,
      ]),
    ),
  )
  return 0
}

export async function openShell(id: string, name: string, options: ShellsOptions): Promise<number> {
  const connection = await connect(options)
  const body = given({ name, cwd: options.workdir, env: options.env, login: options.login })
  const shell = await connection.json<Shell>('POST', `${await connection.session(id)}/shells`, body)
  print(options.json, shell, () => `${shell.name} is open, in ${shell.cwd}`)
  return 0
}

export async function closeShell(id: string, name: string, options: ShellsOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/shells/${encodeURIComponent(name)}`
  const answer = await connection.json<{ closed: boolean }>('DELETE', path)
  print(options.json, answer, () => `${name} ${answer.closed ? 'closed' : 'was already closed'}`)
  return 0
}
