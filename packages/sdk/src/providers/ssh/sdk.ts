import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import { loadVendorSdk, type VendorPackage } from '../../shared/vendor-sdk.ts'

/** The part of `ssh2` that we call; a type test proves that the real one fits. */
export interface Ssh2 {
  Client: new () => Ssh2Client
  utils: { parseKey(data: string | Buffer, passphrase?: string): unknown }
}

export interface Ssh2Client {
  connect(config: Ssh2Config): unknown
  exec(command: string, callback: (error: Error | undefined, channel: Ssh2Channel) => void): unknown
  sftp(callback: (error: Error | undefined, sftp: Ssh2Sftp) => void): unknown
  forwardOut(
    fromHost: string,
    fromPort: number,
    host: string,
    port: number,
    callback: (error: Error | undefined, channel: Duplex) => void,
  ): unknown
  unforwardIn(host: string, port: number, callback: (error?: Error | null) => void): unknown
  destroy(): unknown
  on(event: 'ready' | 'close' | 'end', listener: () => void): this
  on(event: 'error', listener: (error: Error & { level?: string; code?: unknown }) => void): this
}

export interface Ssh2Config {
  sock: Socket
  username: string
  authHandler: Ssh2Credential[]
  readyTimeout: number
  hostVerifier: (key: Buffer) => boolean
  algorithms?: { serverHostKey: HostKeyAlgorithm[] }
}

/** A credential to try. The order matters. */
export type Ssh2Credential =
  | { type: 'agent'; username: string; agent: string }
  | { type: 'publickey'; username: string; key: Buffer; passphrase?: string }

export type HostKeyAlgorithm =
  | 'ssh-ed25519'
  | 'ecdsa-sha2-nistp256'
  | 'ecdsa-sha2-nistp384'
  | 'ecdsa-sha2-nistp521'
  | 'rsa-sha2-512'
  | 'rsa-sha2-256'

export type Ssh2Channel = Duplex & {
  readonly stderr: Readable
  close(): void
}

export interface Ssh2Sftp {
  open(path: string, flags: number, mode: number, callback: Callback<Buffer>): void
  close(handle: Buffer, callback: Callback<void>): void
  read(
    handle: Buffer,
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | undefined, bytesRead: number) => void,
  ): void
  write(
    handle: Buffer,
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: Callback<void>,
  ): void
  fstat(handle: Buffer, callback: Callback<SftpStats>): void
  fchmod(handle: Buffer, mode: number, callback: Callback<void>): void
  stat(path: string, callback: Callback<SftpStats>): void
  lstat(path: string, callback: Callback<SftpStats>): void
  readdir(path: string, callback: Callback<Array<{ filename: string; attrs: SftpStats }>>): void
  mkdir(path: string, attributes: { mode?: number }, callback: Callback<void>): void
  rmdir(path: string, callback: Callback<void>): void
  unlink(path: string, callback: Callback<void>): void
  rename(from: string, to: string, callback: Callback<void>): void
  ext_openssh_rename(from: string, to: string, callback: Callback<void>): void
  chmod(path: string, mode: number, callback: Callback<void>): void
  symlink(target: string, path: string, callback: Callback<void>): void
  readlink(path: string, callback: Callback<string>): void
  realpath(path: string, callback: Callback<string>): void
  ext_openssh_statvfs(path: string, callback: Callback<SftpDisk>): void
  on(event: 'close' | 'end', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
}

export interface SftpStats {
  readonly mode: number
  readonly size: number
  readonly mtime: number
}

export interface SftpDisk {
  readonly f_frsize: number
  readonly f_bavail: number
  readonly f_files: number
  readonly f_favail: number
}

type Callback<T> = (error: (Error & { code?: number }) | null | undefined, result: T) => void

const vendor: VendorPackage = {
  provider: 'ssh',
  name: 'ssh2',
  major: 1,
  fits: ({ Client, utils }) =>
    typeof Client === 'function' && typeof (utils as Ssh2['utils'] | undefined)?.parseKey === 'function',
}

/** The caller's module, or the installed package. */
export function loadSsh2(given: Ssh2 | undefined): Promise<Ssh2> {
  return loadVendorSdk<Ssh2>(vendor, given)
}
