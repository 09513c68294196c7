/** Looks for secrets in everything that belongs to a sandbox: memory and environment of its processes, and files. */
import { closeSync, lstatSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'

const CHUNK = 1 << 20

/** Where one of these texts is, as readable names. */
export function findIn(texts: readonly string[], bytes: Buffer, where: string): string[] {
  return texts.filter((text) => bytes.includes(text)).map((text) => `${text} in ${where}`)
}

/** Every spelling in which a client could have kept the secret. */
export function spellingsOf(secret: string, user: string | undefined): string[] {
  const basic = Buffer.from(`${user ?? ''}:${secret}`)
    .toString('base64')
    .replace(/=+$/, '')
  return [
    secret,
    encodeURIComponent(secret),
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    basic,
  ]
}

/** The processes of a control group, as this machine numbers them. */
export function processesOf(group: string): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .filter((pid) => readOr(`/proc/${pid}/cgroup`).includes(`/${group}/`))
    .map(Number)
}

export function inMemory(pid: number, texts: readonly string[]): string[] {
  const found = new Set<string>()
  for (const name of ['environ', 'cmdline'])
    for (const one of findIn(
      texts,
      Buffer.from(readOr(`/proc/${pid}/${name}`), 'latin1'),
      `${name} of ${pid}`,
    ))
      found.add(one)
  let memory: number
  try {
    memory = openSync(`/proc/${pid}/mem`, 'r')
  } catch {
    return [...found]
  }
  const overlap = Math.max(...texts.map((text) => text.length))
  const buffer = Buffer.alloc(CHUNK + overlap)
  for (const line of readOr(`/proc/${pid}/maps`).split('\n')) {
    const match = /^([0-9a-f]+)-([0-9a-f]+) r.* (\S*)$/.exec(line)
    if (!match || match[3] === '[vvar]' || match[3] === '[vsyscall]') continue
    const end = Number.parseInt(match[2]!, 16)
    for (let at = Number.parseInt(match[1]!, 16); at < end; at += CHUNK) {
      const length = readAt(memory, buffer, at, Math.min(CHUNK + overlap, end - at))
      for (const one of findIn(texts, buffer.subarray(0, length), `memory of ${pid} (${commandOf(pid)})`))
        found.add(one)
    }
  }
  closeSync(memory)
  return [...found]
}

export function inFiles(folder: string, texts: readonly string[]): string[] {
  const found: string[] = []
  for (const entry of entriesOf(folder)) {
    const path = join(folder, entry)
    const stats = lstatSync(path, { throwIfNoEntry: false })
    if (stats?.isDirectory()) found.push(...inFiles(path, texts))
    else if (stats?.isFile() && stats.size < 256 * CHUNK)
      found.push(...findIn(texts, readFileSync(path), path))
  }
  return found
}

export function commandOf(pid: number): string {
  return readOr(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').slice(0, 60)
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function readAt(file: number, buffer: Buffer, position: number, length: number): number {
  try {
    return readSync(file, buffer, 0, length, position)
  } catch {
    // A region that was unmapped meanwhile, or that the kernel does not show.
    return 0
  }
}

function readOr(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
