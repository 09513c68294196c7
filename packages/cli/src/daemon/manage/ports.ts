import { SandboxError } from '@sandkasten/sdk'
import { facts, print, table } from '../../table.ts'
import { type ConnectOptions, connect } from '../client/api.ts'

interface Port {
  port: number
  visibility: string | null
  listening: boolean | null
  url: string | null
  path_url: string | null
  token?: string
}

export interface PortOptions extends ConnectOptions {
  json?: boolean
  visibility?: string
  wake?: boolean
  rotate?: boolean
  expires?: number
  path?: string
}

export async function listPorts(id: string, options: PortOptions): Promise<number> {
  const connection = await connect(options)
  const { ports } = await connection.json<{ ports: Port[] }>('GET', `${await connection.session(id)}/ports`)
  print(options.json, ports, () =>
    table(
      ['PORT', 'OPEN TO', { title: 'LISTENING', drop: 1 }, 'URL'],
      ports.map(({ port, visibility, listening, url, path_url }) => [
        port,
        visibility,
        listens(listening),
        url ?? path_url,
      ]),
    ),
  )
  return 0
}

export async function getPort(id: string, port: string, options: PortOptions): Promise<number> {
  const number = numberOf(port)
  const connection = await connect(options)
  const found = await connection.json<Port>('GET', `${await connection.session(id)}/ports/${number}`)
  print(options.json, found, () =>
    facts([
      ['port', found.port],
      ['open to', found.visibility],
      ['listening', listens(found.listening)],
      ['url', found.url ?? found.path_url],
    ]),
  )
  return 0
}

const listens = (listening: boolean | null) => (listening === null ? '?' : listening ? 'yes' : 'no')

export async function openPort(id: string, port: string, options: PortOptions): Promise<number> {
  const number = numberOf(port)
  const connection = await connect(options)
  const opened = await connection.json<Port>('POST', `${await connection.session(id)}/ports`, {
    port: number,
    visibility: options.visibility,
    wake_on_visit: options.wake,
    rotate: options.rotate,
  })
  const token = opened.token ? `\n\nIts token, shown only once: ${opened.token}` : ''
  print(options.json, opened, () => `${opened.url ?? opened.path_url}${token}`)
  return 0
}

export async function closePort(id: string, port: string, options: PortOptions): Promise<number> {
  const number = numberOf(port)
  const connection = await connect(options)
  const path = `${await connection.session(id)}/ports/${number}`
  const answer = await connection.json<{ closed: boolean }>('DELETE', path)
  print(options.json, answer, () => `${port} ${answer.closed ? 'closed' : 'was already closed'}`)
  return 0
}

export async function linkPort(id: string, port: string, options: PortOptions): Promise<number> {
  const number = numberOf(port)
  const connection = await connect(options)
  const link = await connection.json<{ url: string | null; path_url: string }>(
    'POST',
    `${await connection.session(id)}/ports/${number}/links`,
    { expires_in_seconds: options.expires, path: options.path },
  )
  print(options.json, link, () => link.url ?? link.path_url)
  return 0
}

function numberOf(text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new SandboxError('invalid_argument', `“${text}” is not a port.`, {
    hint: 'Give a number from 1 to 65535.',
  })
}
