/** Writes a few entries as a tar archive: ustar, with GNU tar's extension for long names. */
export interface TarEntry {
  /** The name of a folder ends with `/`. */
  readonly name: string
  readonly mode: number
  readonly owner: { readonly uid: number; readonly gid: number }
  readonly content?: Buffer
}

export function tarOf(entries: readonly TarEntry[]): Buffer {
  const parts: Buffer[] = []
  for (const { name, mode, owner, content = Buffer.alloc(0) } of entries) {
    const bytes = Buffer.from(name)
    if (bytes.length > NAME_BYTES)
      parts.push(...member(Buffer.from('././@LongLink'), 'L', 0o644, { uid: 0, gid: 0 }, bytes))
    parts.push(...member(bytes.subarray(0, NAME_BYTES), name.endsWith('/') ? '5' : '0', mode, owner, content))
  }
  return Buffer.concat([...parts, Buffer.alloc(1024)])
}

const NAME_BYTES = 100

function member(
  name: Buffer,
  kind: string,
  mode: number,
  owner: TarEntry['owner'],
  content: Buffer,
): Buffer[] {
  const header = Buffer.alloc(512)
  const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, '0')}\0`
  name.copy(header)
  header.write(octal(mode, 8) + octal(owner.uid, 8) + octal(owner.gid, 8), 100)
  header.write(octal(content.length, 12) + octal(0, 12), 124)
  header.write(`        ${kind}`, 148)
  header.write('ustar\x0000', 257)
  header.write(
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      7,
    ),
    148,
  )
  return [header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]
}
