import { sizeText, timeText } from '../../format.ts'
import { write } from '../../output.ts'
import { facts, print, table } from '../../table.ts'
import { type Connection, type ConnectOptions, connect, queryOf } from '../client/api.ts'
import { eventsOf } from '../client/events.ts'
import { given } from '../manage/sessions.ts'

interface Stat {
  type: string
  size: number
  mode: number | null
  mtime_ms: number | null
  target?: string
}

export interface FileOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  recursive?: boolean
  parents?: boolean
  force?: boolean
  follow?: boolean
  append?: boolean
  gzip?: boolean
  mode?: string
}

async function filesOf(id: string, options: FileOptions): Promise<{ connection: Connection; base: string }> {
  const connection = await connect(options)
  return { connection, base: `${await connection.session(id)}/files` }
}

export async function listFiles(id: string, path: string | undefined, options: FileOptions): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const query = queryOf({ path, recursive: options.recursive })
  const { entries } = await connection.json<{ entries: Array<Stat & { name: string; path: string }> }>(
    'GET',
    `${base}/list${query}`,
  )
  print(options.json, entries, () =>
    table(
      [{ title: 'MODE', drop: 2 }, 'SIZE', { title: 'CHANGED', drop: 1 }, { title: 'NAME', min: 20 }],
      entries.map((entry) => [
        modeText(entry),
        entry.type === 'file' ? sizeText(entry.size) : undefined,
        timeOf(entry, options),
        `${options.recursive ? entry.path : entry.name}${entry.type === 'directory' ? '/' : ''}`,
      ]),
    ),
  )
  return 0
}

export async function statFile(id: string, path: string, options: FileOptions): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const stat = await connection.json<Stat>('GET', `${base}/stat${queryOf({ path, follow: options.follow })}`)
  print(options.json, stat, () =>
    facts([
      ['type', stat.type],
      ['size', sizeText(stat.size)],
      ['mode', modeText(stat)],
      ['changed', timeOf(stat, options)],
      ...(stat.target === undefined ? [] : [['target', stat.target] as const]),
    ]),
  )
  return 0
}

export async function writeFile(id: string, path: string, options: FileOptions): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const query = queryOf({ path, mode: options.mode, append: options.append })
  return done(await putStdin(connection, `${base}${query}`), options, path)
}

export async function makeFolder(id: string, path: string, options: FileOptions): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const mode = options.mode === undefined ? undefined : Number.parseInt(options.mode, 8)
  const body = given({ path, recursive: options.parents, mode })
  return done(await connection.request('POST', `${base}/mkdir`, { body }), options, path)
}

export async function moveFile(id: string, from: string, to: string, options: FileOptions): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  return done(await connection.request('POST', `${base}/move`, { body: { from, to } }), options, to)
}

export async function removeFile(id: string, path: string, options: FileOptions): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const query = queryOf({ path, recursive: options.recursive, force: options.force })
  return done(await connection.request('DELETE', `${base}${query}`), options, path)
}

export async function changeMode(
  id: string,
  mode: string,
  path: string,
  options: FileOptions,
): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const body = { path, mode: Number.parseInt(mode, 8) }
  return done(await connection.request('POST', `${base}/chmod`, { body }), options, path)
}

export async function makeLink(
  id: string,
  target: string,
  path: string,
  options: FileOptions,
): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  return done(await connection.request('POST', `${base}/symlink`, { body: { target, path } }), options, path)
}

export async function watchFiles(
  id: string,
  path: string | undefined,
  options: FileOptions,
): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const query = queryOf({ path, recursive: options.recursive })
  for await (const { event, data } of eventsOf(await connection.request('GET', `${base}/watch${query}`)))
    console.log(
      options.json
        ? JSON.stringify({ event, ...data })
        : `${data.type ?? event}  ${data.path ?? ''}`.trimEnd(),
    )
  return 0
}

export async function packFolder(
  id: string,
  path: string | undefined,
  options: FileOptions,
): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const response = await connection.request('GET', `${base}/archive${queryOf({ path })}`)
  for await (const chunk of response.body ?? []) await write(process.stdout, chunk)
  return 0
}

export async function unpackArchive(
  id: string,
  path: string | undefined,
  options: FileOptions,
): Promise<number> {
  const { connection, base } = await filesOf(id, options)
  const query = queryOf({ path, gzip: options.gzip })
  return done(await putStdin(connection, `${base}/archive${query}`), options, path)
}

/** A refused request does not wait for the rest of stdin. */
async function putStdin(connection: Connection, url: string): Promise<Response> {
  try {
    const bytes = ReadableStream.from(process.stdin) as ReadableStream<Uint8Array>
    return await connection.request('PUT', url, { bytes })
  } finally {
    process.stdin.destroy()
  }
}

/** Like mkdir, mv and rm: prints nothing on success. */
async function done(response: Response, { json }: FileOptions, path: string | undefined): Promise<number> {
  const answer = (await response.json()) as object
  if (json) print(true, { path, ...answer }, () => '')
  return 0
}

function modeText({ type, mode }: Stat): string {
  const letters = { directory: 'd', symlink: 'l', file: '-' }[type] ?? '?'
  return mode === null ? letters : `${letters} ${(mode & 0o7777).toString(8).padStart(4, '0')}`
}

function timeOf({ mtime_ms }: Stat, options: FileOptions): string | undefined {
  return mtime_ms === null ? undefined : timeText(new Date(mtime_ms).toISOString(), options)
}
