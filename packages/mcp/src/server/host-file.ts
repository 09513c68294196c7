import { constants } from 'node:fs'
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises'
import path from 'node:path'
import { type HostFile, limits, shownName } from '../tools/index.ts'

export type OpenedFile = HostFile & AsyncDisposable

/**
 * Opens a file of this machine that is below one of the allowed folders. Symbolic links may point within them, and not
 * out. The open file is checked again through its descriptor, so replacing a folder meanwhile gains nothing.
 */
export async function openHostFile(
  given: string,
  allowFolders: readonly string[],
): Promise<OpenedFile | { problem: string }> {
  if (allowFolders.length === 0)
    return refused('no folder of this machine is allowed; the user can start the server with --allow-folder')
  if (!path.isAbsolute(given)) return refused('localPath must be absolute')
  const folders = await Promise.all(allowFolders.map((folder) => realpath(folder).catch(() => undefined)))
  const inside = (file: string) => folders.some((folder) => folder !== undefined && isBelow(folder, file))
  let file: FileHandle | undefined
  try {
    const resolved = await realpath(given)
    // The same answer as for a missing file: what exists elsewhere is not the agent's business.
    if (!inside(resolved)) return refused(notAllowed(given))
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
    file = await open(resolved, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    if (!inside(await openedPath(file, resolved))) return await closing(file, notAllowed(given))
    const { size } = await checked(file)
    if (size > limits.uploadBytes)
      return await closing(file, `${shownName(given)} is larger than ${limits.uploadBytes} bytes`)
    return openedFile(file, given, size)
  } catch (error) {
    await file?.close()
    return refused(reasonOf(error, given))
  }
}

function openedFile(file: FileHandle, given: string, sizeBytes: number): OpenedFile {
  // A file that grows meanwhile ends where it ended.
  const range = { start: 0, end: sizeBytes - 1, autoClose: false }
  return {
    name: path.basename(given),
    sizeBytes,
    stream: () => (sizeBytes === 0 ? empty() : file.createReadStream(range)),
    [Symbol.asyncDispose]: () => file.close(),
  }
}

async function* empty(): AsyncIterable<Uint8Array> {}

async function checked(file: FileHandle) {
  const stat = await file.stat()
  if (!stat.isFile()) throw Object.assign(new Error('not a file'), { code: 'ENOTFILE' })
  return stat
}

/** Where the kernel says that the open file is. */
async function openedPath({ fd }: FileHandle, resolved: string): Promise<string> {
  if (process.platform !== 'linux') return realpath(resolved)
  return readlink(`/proc/self/fd/${fd}`)
}

function isBelow(folder: string, file: string): boolean {
  const relative = path.relative(folder, file)
  return (
    relative !== '' &&
    !relative.startsWith(`..${path.sep}`) &&
    relative !== '..' &&
    !path.isAbsolute(relative)
  )
}

function notAllowed(given: string): string {
  return `${shownName(given)} does not exist in an allowed folder`
}

function reasonOf(error: unknown, given: string): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'EACCES' || code === 'EPERM') return `${shownName(given)} may not be read`
  if (code === 'ENOTFILE') return `${shownName(given)} is not a file`
  return notAllowed(given)
}

async function closing(file: FileHandle, reason: string): Promise<{ problem: string }> {
  await file.close()
  return refused(reason)
}

function refused(reason: string): { problem: string } {
  return { problem: `The file cannot be uploaded: ${reason}.` }
}
