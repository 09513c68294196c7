import type { SftpDisk, SftpStats, Ssh2Sftp } from '../sdk.ts'

/** SFTP's status codes (draft-ietf-secsh-filexfer-02). */
export const sftpStatus = { noSuchFile: 2, permissionDenied: 3, failure: 4, unsupported: 8 } as const

export const openFlags = {
  read: 0x01,
  write: 0x02,
  append: 0x04,
  create: 0x08,
  truncate: 0x10,
  exclusive: 0x20,
} as const

/** ssh2's SFTP calls as promises, and operations that combine them. */
export function sftpCalls(sftp: Ssh2Sftp) {
  const calls = {
    open: (path: string, flags: number, mode: number) =>
      asked<Buffer>((done) => sftp.open(path, flags, mode, done)),
    close: (handle: Buffer) => asked<void>((done) => sftp.close(handle, done)),
    read: (handle: Buffer, length: number, position: number) =>
      new Promise<Buffer>((resolve, reject) => {
        const buffer = Buffer.allocUnsafe(length)
        sftp.read(handle, buffer, 0, length, position, (error, count) => {
          // SFTP reports the end of the file as an error.
          if (error && (error as { code?: number }).code !== 1) reject(error)
          else resolve(buffer.subarray(0, error ? 0 : count))
        })
      }),
    write: (handle: Buffer, data: Uint8Array, position: number) =>
      asked<void>((done) => {
        const buffer = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
        sftp.write(handle, buffer, 0, buffer.length, position, done)
      }),
    fstat: (handle: Buffer) => asked<SftpStats>((done) => sftp.fstat(handle, done)),
    fchmod: (handle: Buffer, mode: number) => asked<void>((done) => sftp.fchmod(handle, mode, done)),
    stat: (path: string) => asked<SftpStats>((done) => sftp.stat(path, done)),
    lstat: (path: string) => asked<SftpStats>((done) => sftp.lstat(path, done)),
    readdir: (path: string) =>
      asked<Array<{ filename: string; attrs: SftpStats }>>((done) => sftp.readdir(path, done)),
    mkdir: (path: string, mode?: number) =>
      asked<void>((done) => sftp.mkdir(path, mode === undefined ? {} : { mode }, done)),
    rmdir: (path: string) => asked<void>((done) => sftp.rmdir(path, done)),
    unlink: (path: string) => asked<void>((done) => sftp.unlink(path, done)),
    chmod: (path: string, mode: number) => asked<void>((done) => sftp.chmod(path, mode, done)),
    symlink: (target: string, path: string) => asked<void>((done) => sftp.symlink(target, path, done)),
    readlink: (path: string) => asked<string>((done) => sftp.readlink(path, done)),
    realpath: (path: string) => asked<string>((done) => sftp.realpath(path, done)),
    /** Replaces an existing file, like rename(2). */
    replace: (from: string, to: string) => asked<void>((done) => sftp.ext_openssh_rename(from, to, done)),
    /** SFTP has no code for a full disk and reports a generic failure. */
    async isFull(path: string): Promise<boolean> {
      const disk = await asked<SftpDisk>((done) => sftp.ext_openssh_statvfs(path, done)).catch(
        () => undefined,
      )
      if (!disk) return false
      return disk.f_bavail * disk.f_frsize < 64 * 1024 || (disk.f_files > 0 && disk.f_favail === 0)
    },
    /** Creates the folder and its parents. Existing folders do not change. */
    async makeFolders(folder: string): Promise<void> {
      if (await calls.stat(folder).then(isFolder, () => false)) return
      const parent = folder.slice(0, folder.lastIndexOf('/'))
      if (parent !== '') await calls.makeFolders(parent)
      await calls.mkdir(folder, 0o700).catch(async (error) => {
        if (!(await calls.stat(folder).then(isFolder, () => false))) throw error
      })
    },
    async writeSmall(file: string, content: Buffer, mode: number): Promise<void> {
      const handle = await calls.open(file, openFlags.write | openFlags.create | openFlags.exclusive, mode)
      try {
        await calls.write(handle, content, 0)
      } finally {
        await calls.close(handle)
      }
    },
  }
  return calls
}

export type SftpCalls = ReturnType<typeof sftpCalls>

export function statusOf(error: unknown): number | undefined {
  const { code } = error as { code?: unknown }
  return typeof code === 'number' ? code : undefined
}

const kindMask = 0o170000

export function isFolder({ mode }: SftpStats): boolean {
  return (mode & kindMask) === 0o040000
}

export function isLink({ mode }: SftpStats): boolean {
  return (mode & kindMask) === 0o120000
}

export function isFile({ mode }: SftpStats): boolean {
  return (mode & kindMask) === 0o100000
}

function asked<T>(ask: (done: (error: Error | null | undefined, result: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    ask((error, result) => (error ? reject(error) : resolve(result)))
  })
}
