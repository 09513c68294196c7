/** A few entries as a tar, in the format that every daemon reads (ustar). */
export interface TarEntry {
  /** Below 100 bytes. A folder's ends with `/`. */
  readonly name: string
  readonly mode: number
  readonly owner: number
  readonly content?: Buffer
}

export function tarOf(entries: readonly TarEntry[]): Buffer {
  const parts: Buffer[] = []
  for (const { name, mode, owner, content = Buffer.alloc(0) } of entries) {
    const header = Buffer.alloc(512)
    const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, '0')}\0`
    header.write(name, 0)
    header.write(octal(mode, 8) + octal(owner, 8) + octal(owner, 8), 100)
    header.write(octal(content.length, 12) + octal(0, 12), 124)
    header.write(`        ${name.endsWith('/') ? '5' : '0'}`, 148)
    header.write('ustar\x0000', 257)
    header.write(
      octal(
        header.reduce((sum, byte) => sum + byte, 0),
        7,
      ),
      148,
    )
    parts.push(header, content, Buffer.alloc((512 - (content.length % 512)) % 512))
  }
  return Buffer.concat([...parts, Buffer.alloc(1024)])
}
