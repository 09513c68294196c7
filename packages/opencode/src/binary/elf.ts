import { open } from 'node:fs/promises'

export type Arch = 'x64' | 'arm64'
export type Libc = 'glibc' | 'musl'

/** What an executable file of Linux runs on. */
export interface Executable {
  readonly arch: Arch | 'other'
  /** Undefined for a program without a loader, which runs with any libc. */
  readonly libc?: Libc
}

const machines: Readonly<Record<number, Arch>> = { 62: 'x64', 183: 'arm64' }
const PT_INTERP = 3
const mostHeaders = 64
const mostPath = 256

/** Undefined if the file is no 64-bit little-endian ELF program, for example a script. */
export async function readExecutable(file: string): Promise<Executable | undefined> {
  const handle = await open(file)
  try {
    const bytes = async (position: number, length: number) => {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, position)
      return buffer.subarray(0, bytesRead)
    }
    const head = await bytes(0, 64)
    if (head.length < 64 || head.toString('latin1', 0, 6) !== '\x7fELF\x02\x01') return undefined
    const arch = machines[head.readUInt16LE(18)] ?? 'other'
    const [size, count] = [head.readUInt16LE(54), Math.min(head.readUInt16LE(56), mostHeaders)]
    const table = await bytes(Number(head.readBigUInt64LE(32)), size * count)
    for (let at = 0; at + 40 <= table.length; at += size) {
      if (size < 40) break
      if (table.readUInt32LE(at) !== PT_INTERP) continue
      const length = Math.min(Number(table.readBigUInt64LE(at + 32)), mostPath)
      const loader = (await bytes(Number(table.readBigUInt64LE(at + 8)), length)).toString('latin1')
      return { arch, libc: loader.includes('musl') ? 'musl' : 'glibc' }
    }
    return { arch }
  } finally {
    await handle.close()
  }
}
