import { open } from 'node:fs/promises'

/** Whether a Git LFS file is present with its content or only as a pointer. */
export async function lfsKind(path: string, size: number): Promise<'content' | 'pointers'> {
  if (size > 1024) return 'content'
  const handle = await open(path, 'r')
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(mark.length), 0, mark.length, 0)
    return buffer.subarray(0, bytesRead).toString('latin1') === mark ? 'pointers' : 'content'
  } finally {
    await handle.close()
  }
}

const mark = 'version https://git-lfs.github.com/spec/'
