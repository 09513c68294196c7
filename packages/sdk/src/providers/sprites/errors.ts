import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { abortedError } from '../../shared/calls/abort.ts'

export interface Circumstances {
  readonly signal?: AbortSignal | undefined
  readonly sandboxId?: string | undefined
  /** Removed from messages. */
  readonly token?: string
}

/** Translates any rejection of an SDK call. Classifies by class, status or vendor code, never by text. */
export function translated(error: unknown, circumstances: Circumstances = {}): SandboxError {
  const { signal, sandboxId, token } = circumstances
  if (signal?.aborted) return abortedError(signal)
  if (SandboxError.is(error)) return error
  const { statusCode: status, errorCode, message } = error as VendorError
  const vendorCode = typeof errorCode === 'string' ? errorCode.slice(0, 100) : undefined
  const code = typeof status === 'number' ? byStatus(status, vendorCode) : byClass(error)
  const text = String(message ?? error).slice(0, 300)
  return new SandboxError(code, `Sprites: ${token ? text.replaceAll(token, '***') : text}`, {
    provider: 'sprites',
    cause: error,
    sandboxId,
    hint: hints[code],
    details: typeof status === 'number' ? { status, vendorCode, retryAfterMs: retryAfterOf(error) } : {},
  })
}

export function stdinClosed(): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider: 'sprites' })
}

export function connectionLost(sandboxId: string, cause?: unknown): SandboxError {
  return new SandboxError('connection_lost', 'Sprites ended a command’s stream without an exit code.', {
    provider: 'sprites',
    sandboxId,
    cause,
    hint: 'Programs continue: find them with getProcess(id), and go on with output({ after }).',
  })
}

/** The SDK does not report why a WebSocket did not open. */
export function notOpened(sandboxId: string, cause?: unknown): SandboxError {
  return new SandboxError('unavailable', 'Sprites did not accept a command.', {
    provider: 'sprites',
    sandboxId,
    cause,
    hint: 'Try again.',
  })
}

interface VendorError {
  readonly message?: unknown
  readonly statusCode?: unknown
  readonly errorCode?: unknown
  readonly getRetryAfterSeconds?: () => unknown
}

function byStatus(status: number, vendorCode: string | undefined): SandboxErrorCode {
  if (vendorCode === 'concurrent_sprite_limit_exceeded') return 'quota_exceeded'
  const known = statuses[status]
  if (known) return known
  return status >= 400 && status < 500 ? 'invalid_argument' : 'provider_error'
}

const statuses: Readonly<Record<number, SandboxErrorCode>> = {
  401: 'unauthenticated',
  402: 'quota_exceeded',
  403: 'forbidden',
  404: 'not_found',
  408: 'timeout',
  409: 'conflict',
  413: 'too_large',
  429: 'rate_limited',
  501: 'unsupported',
  502: 'unavailable',
  503: 'unavailable',
  504: 'timeout',
  507: 'disk_full',
}

/**
 * The SDK wraps every failed connection in a plain `Error` without a cause. A response that broke off is a `TypeError` of
 * `fetch`, with a cause; an invalid one is a `SyntaxError`, or a `TypeError` without a cause.
 */
function byClass(error: unknown): SandboxErrorCode {
  if (!(error instanceof Error)) return 'provider_error'
  if (error.name === 'TimeoutError') return 'timeout'
  if (error instanceof TypeError) return error.cause === undefined ? 'provider_error' : 'connection_lost'
  return error.name === 'Error' ? 'connection_lost' : 'provider_error'
}

function retryAfterOf(error: unknown): number | undefined {
  const seconds = (error as VendorError).getRetryAfterSeconds?.()
  return typeof seconds === 'number' && seconds >= 0 && seconds < 1e7 ? Math.round(seconds * 1000) : undefined
}

const hints: Partial<Record<SandboxErrorCode, string>> = {
  unauthenticated: 'Check token (SPRITES_TOKEN), and that it belongs to baseUrl.',
  quota_exceeded: 'Destroy sprites, or raise the limit of the organization.',
  timeout: 'Try again, or raise requestTimeoutMs.',
}
