/** Writes valid and malicious tar archives for tests. */
export interface TarEntry {
  readonly name: string
  /** `0` file, `1` hard link, `2` symlink, `3` and `4` devices, `5` folder, `6` pipe. */
  readonly kind?: string
  readonly content?: string | Buffer
  readonly link?: string
  readonly mode?: number
  readonly uid?: number
  readonly gid?: number
  readonly mtime?: number
  readonly device?: readonly [number, number]
  /** Records of a pax header before the entry. */
  readonly pax?: Readonly<Record<string, string>>
}

export function tar(entries: readonly TarEntry[], { end = true } = {}): Buffer {
  const blocks = entries.flatMap((entry) => [...paxOf(entry), ...blocksOf(entry)])
  return Buffer.concat([...blocks, ...(end ? [Buffer.alloc(1024)] : [])])
}

export const file = (
  name: string,
  content: string | Buffer = '',
  rest: Partial<TarEntry> = {},
): TarEntry => ({
  name,
  content,
  ...rest,
})
export const folder = (name: string, rest: Partial<TarEntry> = {}): TarEntry => ({
  name,
  kind: '5',
  mode: 0o755,
  ...rest,
})
export const symlink = (name: string, link: string): TarEntry => ({ name, kind: '2', link, mode: 0o777 })

function paxOf({ pax }: TarEntry): Buffer[] {
  if (!pax) return []
  const records = Object.entries(pax).map(([key, value]) => {
    const rest = Buffer.from(` ${key}=${value}\n`, 'latin1')
    let length = rest.length + 1
    while (String(length).length + rest.length !== length) length = String(length).length + rest.length
    return Buffer.concat([Buffer.from(String(length)), rest])
  })
  return blocksOf({ name: 'pax', kind: 'x', content: Buffer.concat(records) })
}

function blocksOf(entry: TarEntry): Buffer[] {
  const { kind = '0', content = '', mode = 0o644, uid = 0, gid = 0, mtime = 0, link = '' } = entry
  const bytes = Buffer.from(content)
  const header = Buffer.alloc(512)
  const octal = (value: number, at: number, width: number) =>
    header.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1')
  header.write(entry.name, 0, 100, 'utf8')
  octal(mode, 100, 8)
  octal(uid, 108, 8)
  octal(gid, 116, 8)
  octal(bytes.length, 124, 12)
  octal(mtime, 136, 12)
  header.write(kind, 156, 'latin1')
  header.write(link, 157, 100, 'utf8')
  header.write('ustar\x0000', 257, 'latin1')
  octal(entry.device?.[0] ?? 0, 329, 8)
  octal(entry.device?.[1] ?? 0, 337, 8)
  header.write('        ', 148, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return [header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]
}
