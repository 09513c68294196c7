import { SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'
import type { CborMap } from './cbor.ts'

/** The runner broke the protocol. The connection ends, and its data is discarded. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** Translates the runner's codes. An unknown code of a newer runner becomes `provider_error`, with the code in `details`. */
const codes: Readonly<Record<string, SandboxErrorCode>> = {
  invalid: 'invalid_argument',
  not_found: 'not_found',
  exists: 'conflict',
  denied: 'permission_denied',
  not_directory: 'not_a_directory',
  is_directory: 'is_a_directory',
  not_empty: 'directory_not_empty',
  no_space: 'disk_full',
  busy: 'conflict',
  gone: 'gone',
  cancelled: 'aborted',
  unsupported: 'unsupported',
  limit: 'quota_exceeded',
  refused: 'unavailable',
  shutting_down: 'unavailable',
  io: 'provider_error',
  internal: 'internal',
}

const fileCodes: Readonly<Record<string, SandboxErrorCode>> = {
  not_found: 'file_not_found',
  exists: 'file_exists',
}
const stepCodes: Readonly<Record<string, SandboxErrorCode>> = {
  exec: 'command_not_found',
  cwd: 'cwd_not_found',
}

/** Converts an ERROR body. Its text comes from the runner, so it is truncated and only displayed. */
export function fromErrorBody(body: CborMap, op: string): SandboxError {
  const runnerCode = typeof body.code === 'string' ? body.code.slice(0, 64) : 'unknown'
  const message = typeof body.message === 'string' ? body.message.slice(0, 1000) : 'no message'
  const errno = typeof body.errno === 'number' ? body.errno : undefined
  const step = typeof body.step === 'string' ? body.step.slice(0, 64) : undefined
  let code = Object.hasOwn(codes, runnerCode) ? codes[runnerCode] : undefined
  if (op.startsWith('fs.') && Object.hasOwn(fileCodes, runnerCode)) code = fileCodes[runnerCode]
  if (runnerCode === 'not_found' && step !== undefined && Object.hasOwn(stepCodes, step))
    code = stepCodes[step]
  return new SandboxError(code ?? 'provider_error', `${op}: ${message}`, {
    details: { runnerCode, errno, step },
  })
}

export function connectionLost(cause?: unknown): SandboxError {
  return new SandboxError('connection_lost', 'the connection to the runner ended', { cause })
}

export function timedOut(what: string, timeoutMs: number): SandboxError {
  return new SandboxError('timeout', `${what} took longer than ${timeoutMs} ms`)
}
