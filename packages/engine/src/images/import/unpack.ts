import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, translate } from '@sandkasten/sdk/internal'
import { throwIfAborted } from '@sandkasten/sdk/provider'
import { errnoName } from '../../errno.ts'
import type { LayerFacts } from '../record.ts'
import type { ImageRights } from '../rights.ts'
import { broken } from './manifest.ts'

export interface UnpackLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}

/** No honest image comes near these limits. They stop a hostile one before it fills the disk or its inodes. */
export const unpackLimits: UnpackLimits = { maxEntries: 4_000_000, maxBytes: 256 * 1024 ** 3 }

export interface Unpacking {
  readonly runner: string
  readonly rights?: ImageRights | undefined
  readonly limits: UnpackLimits
  /** The archive is not a layer, so whiteouts are plain files. */
  readonly plain?: boolean
  /** Do not sync to the disk. A power cut may then leave a partial result. */
  readonly volatile?: boolean
  readonly signal?: AbortSignal
  /** Called with the number of input bytes since the last call. */
  readonly onBytes?: (count: number) => void
}

export interface Unpacked {
  readonly facts: LayerFacts
  /** The digest of the tar archive. */
  readonly diffId: string
}

/**
 * Unpacks a tar archive, compressed or not, into a new folder. `runner unpack` does it in a process of its own with
 * the folder as its root. If this rejects, the caller removes the folder.
 */
export async function unpackFile(
  file: string,
  folder: string,
  options: Unpacking & { digest?: string },
): Promise<Unpacked> {
  const decompress = await compressionOf(file)
  const hash = createHash('sha256')
  const seen = seeing((chunk) => {
    hash.update(chunk)
    options.onBytes?.(chunk.length)
  })
  const through = decompress ? [seen, decompress] : [seen]
  const unpacked = await unpackStream(createReadStream(file), folder, { ...options, through })
  const digest = `sha256:${hash.digest('hex')}`
  if (options.digest !== undefined && digest !== options.digest)
    throw broken(`the digest of a layer is ${digest}, but should be ${options.digest}`)
  return unpacked
}

export async function unpackStream(
  input: Readable,
  folder: string,
  options: Unpacking & { through?: readonly Transform[] },
): Promise<Unpacked> {
  const { runner, rights, limits, plain, volatile, signal, through = [] } = options
  await mkdir(folder, { mode: 0o755 }).catch((error) => {
    throw translate(error, 'Cannot write to the image store')
  })
  const unpack = [
    ...([runner, 'unpack', folder, '--max-entries', String(limits.maxEntries)] as const),
    ...['--max-bytes', String(limits.maxBytes)],
    ...(rights ? ['--user'] : []),
    ...(plain ? ['--plain'] : []),
    ...(plain || volatile ? ['--no-sync'] : []),
  ] as const
  const as = plain ? rights?.asOurselves : rights?.asSandboxes
  const [program, ...args] = as?.(runner, ...unpack) ?? unpack
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'], env: {} })
  const said = new Promise<string>((resolve, reject) => {
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    child.once('error', reject)
    child.once('close', () => resolve(text))
  })
  said.catch(() => {})
  const hash = createHash('sha256')
  const hashing = seeing((chunk) => hash.update(chunk))
  const streams = pipeline([input, ...through, hashing, child.stdin], { signal })
  const failed = await streams.then(
    () => undefined,
    (error: unknown) => error,
  )
  const answer = parseAnswer(await said.catch((error) => Promise.reject(translate(error, 'The runner'))))
  throwIfAborted(signal, 'Unpacking the image')
  // A broken pipe only means that the other side ended first. Its own error has the reason.
  if (failed && !BROKEN_PIPE.includes(errnoOf(failed) ?? '')) throw unreadable(failed)
  if (typeof answer.error === 'string') throw refusal(answer.error, answer.errno)
  if (failed) throw unreadable(failed)
  return { facts: factsOf(answer), diffId: `sha256:${hash.digest('hex')}` }
}

/** Passes all bytes on and calls a function with each chunk. */
function seeing(look: (chunk: Buffer) => void): Transform {
  return new Transform({
    transform(chunk, _encoding, done) {
      look(chunk)
      done(null, chunk)
    },
  })
}

const BROKEN_PIPE = ['EPIPE', 'ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE', 'ERR_STREAM_DESTROYED']

/** Decides by the first bytes, because media types are often wrong. */
async function compressionOf(file: string): Promise<Transform | undefined> {
  await using handle = await open(file)
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0)
  const start = buffer.subarray(0, bytesRead).toString('hex')
  if (start.startsWith('1f8b')) return createGunzip()
  return start === '28b52ffd' ? createZstdDecompress() : undefined
}

function unreadable(error: unknown): SandboxError {
  const code = errnoOf(error) ?? ''
  // Errors of the decompressor: invalid or truncated data.
  if (/^(Z_|ZSTD_|ERR_)/.test(code)) return broken(`cannot decompress a layer (${code})`)
  return translate(error, 'Cannot read the image')
}

function refusal(message: string, errno: unknown): SandboxError {
  if (typeof errno !== 'number') return broken(message)
  const error = translate(
    Object.assign(new Error(message), { code: errnoName(errno) }),
    `Cannot unpack a layer (${message})`,
  )
  if (error.code !== 'disk_full') return error
  return new SandboxError('disk_full', error.message, {
    cause: error,
    hint: 'Free space, or inodes (df -i), on the disk of the engine’s root, and try again.',
  })
}

function factsOf(answer: Record<string, unknown>): LayerFacts {
  const { entries, bytes, foreignOwners, skippedAttributes, skippedDevices, opaque } =
    answer as unknown as LayerFacts
  const devices = skippedDevices || undefined
  return { version: 1, entries, bytes, foreignOwners, skippedAttributes, skippedDevices: devices, opaque }
}

function parseAnswer(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new SandboxError(
      'internal',
      'The unpacking process ended without a result; it may have been killed',
      { cause },
    )
  }
}
