import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { isFolder, type SftpCalls, sftpStatus, statusOf } from './connection/sftp.ts'

/**
 * Resolves a caller's path to a real path below the working directory, or throws. The host resolves links (SFTP's
 * realpath). A missing path is resolved from its nearest existing folder. Races with programs in the sandbox are not
 * defended against: programs are not confined, so a program that wins the race can read the file directly.
 */
export class Paths {
  readonly #sftp: SftpCalls
  readonly #root: string

  constructor(sftp: SftpCalls, root: string) {
    this.#sftp = sftp
    this.#root = root
  }

  /** With `follow: false` the last component may be a link. */
  async resolve(given: string, follow: boolean): Promise<string> {
    const full = given.startsWith('/') ? given : `${this.#root}/${given}`
    for (const part of full.split('/'))
      if (Buffer.byteLength(part) > 255)
        throw new SandboxError('invalid_argument', 'File names may have at most 255 bytes.', {
          provider: 'ssh',
        })
    const parts = full.split('/').filter((part) => part !== '' && part !== '.')
    const last = parts.at(-1)
    const rest: string[] = []
    if (!follow && last !== undefined && last !== '..') rest.unshift(parts.pop()!)
    for (;;) {
      const real = await this.#real(`/${parts.join('/')}`)
      if (real !== undefined) return this.#inside([real === '/' ? '' : real, ...rest].join('/'), given)
      const missing = parts.pop()!
      // A `..` below a missing folder cannot be resolved.
      if (missing === '..')
        throw new SandboxError('file_not_found', `${given}: no such file.`, { provider: 'ssh' })
      rest.unshift(missing)
    }
  }

  /** Finds the reason behind SFTP's “failure” or “no such file”. */
  async reason(file: string, status: number): Promise<SandboxErrorCode> {
    if (status === sftpStatus.permissionDenied) return 'permission_denied'
    if (status === sftpStatus.unsupported) return 'unsupported'
    for (let at = file.lastIndexOf('/'); at > 0; at = file.lastIndexOf('/', at - 1)) {
      const facts = await this.#sftp.stat(file.slice(0, at)).catch(() => undefined)
      if (facts) {
        if (!isFolder(facts)) return 'not_a_directory'
        break
      }
    }
    if (status === sftpStatus.noSuchFile) return 'file_not_found'
    return (await this.#sftp.isFull(this.#root)) ? 'disk_full' : 'provider_error'
  }

  async #real(path: string): Promise<string | undefined> {
    return this.#sftp.realpath(path).catch(async (error) => {
      if (statusOf(error) === undefined || path === '/') throw error
      // A link to an unreadable target outside still leads out.
      const target = await this.#sftp.readlink(path).catch(() => undefined)
      if (target?.startsWith('/') && statusOf(error) === sftpStatus.permissionDenied) return target
      return undefined
    })
  }

  #inside(real: string, given: string): string {
    if (real === this.#root || real.startsWith(`${this.#root}/`)) return real
    throw new SandboxError('path_outside', `The path ${given} leads out of the sandbox’s folder.`, {
      provider: 'ssh',
      hint: 'Use a path relative to the sandbox’s workdir, or an absolute one below it.',
    })
  }
}
