import { SandboxError } from '../../../errors.ts'
import { onAbort } from '../../../shared/calls/abort.ts'
import { Silence } from '../../../shared/calls/silence-timeout.ts'
import { concat } from '../../../shared/output/bytes.ts'
import type { VendorSprite } from '../sdk.ts'

export interface ExecOptions {
  readonly args: readonly string[]
  /** The whole stdin. */
  readonly input: Uint8Array
  /** How long the vendor may take to accept the command. */
  readonly openMs: number
  /** How long an accepted command may be silent. */
  readonly silenceMs: number
  readonly signal?: AbortSignal | undefined
}

export interface ExecResult {
  readonly exitCode: number
  readonly stdout: Uint8Array
}

/** A failed command. `opened`: the vendor accepted it, so it may have run. */
export class ExecFailure extends Error {
  readonly opened: boolean

  constructor(opened: boolean, cause: unknown) {
    super('The command has no result.', { cause })
    this.opened = opened
  }
}

/**
 * Runs `/bin/sh` with these arguments on a WebSocket, and returns its whole output. Rejects with `ExecFailure` unless the
 * vendor reports the exit code, which follows all output.
 */
export async function exec(sprite: VendorSprite, options: ExecOptions): Promise<ExecResult> {
  const { args, input, openMs, silenceMs, signal } = options
  const opening = new Silence(openMs, 'sprites', signal)
  const silence = new Silence(silenceMs, 'sprites', opening.signal)
  const ended = Promise.withResolvers<number>()
  const drained = Promise.withResolvers<void>()
  const chunks: Uint8Array[] = []
  let bytes = 0
  let opened = false
  opening.listen()
  const command = sprite.spawn('/bin/sh', [...args])
  // The SDK reports some failures twice, and an unhandled one ends this process.
  command.on('error', (error) => ended.reject(error))
  command.on('exit', (code) => ended.resolve(code))
  command.on('spawn', () => {
    opened = true
    opening.rest()
    if (silence.signal.aborted) return command.kill('SIGTERM')
    silence.listen()
    for (let at = 0; at < input.byteLength; at += pieceBytes)
      command.stdin.write(input.subarray(at, at + pieceBytes))
    command.stdin.end()
  })
  command.stderr.resume()
  command.stdout.on('end', () => drained.resolve())
  command.stdout.on('data', (data) => {
    silence.listen()
    bytes += data.byteLength
    if (bytes <= mostBytes) chunks.push(data)
    else ended.reject(tooLong())
  })
  const forget = onAbort(silence.signal, () => ended.reject(silence.signal.reason))
  try {
    const exitCode = await ended.promise
    if (exitCode < 0) throw new Error('The WebSocket was closed without an exit code.')
    await drained.promise
    return { exitCode, stdout: concat(chunks) }
  } catch (error) {
    if (opened) command.kill('SIGTERM')
    const cause = opening.blamed(silence.blamed(error))
    throw SandboxError.is(cause) || signal?.aborted ? cause : new ExecFailure(opened, cause)
  } finally {
    opening.rest()
    silence.rest()
    forget()
  }
}

function tooLong(): SandboxError {
  return new SandboxError('too_large', 'The response of a command is too long.', { provider: 'sprites' })
}

/** A common limit of WebSocket servers for one message is 32 KiB. */
const pieceBytes = 16 * 1024
const mostBytes = 64 * 1024 * 1024
