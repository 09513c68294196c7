import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { abortedError } from '../../shared/calls/abort.ts'

export interface Circumstances {
  readonly signal?: AbortSignal | undefined
  readonly sandboxId?: string | undefined
  readonly requestId?: string | undefined
  readonly what?: string
}

/** Translates any rejection of an SDK call. Classifies by class, status or vendor code, never by text. */
export function translated(error: unknown, circumstances: Circumstances = {}): SandboxError {
  const { signal, sandboxId, requestId, what } = circumstances
  if (signal?.aborted) return abortedError(signal, what)
  if (SandboxError.is(error)) return error
  const { code, status } = classified(error)
  const { message } = error as { message?: unknown }
  return new SandboxError(code, `E2B: ${String(message ?? error).slice(0, 500)}`, {
    provider: 'e2b',
    cause: error,
    sandboxId,
    requestId,
    hint: hints[code],
    details: status === undefined ? {} : { status },
  })
}

export async function translating<T>(work: Promise<T>, circumstances: Circumstances = {}): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw translated(error, circumstances)
  }
}

export function stdinClosed(): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider: 'e2b' })
}

export function connectionLost(sandboxId: string, requestId?: string, cause?: unknown): SandboxError {
  return new SandboxError('connection_lost', 'E2B ended a command’s stream without an exit status.', {
    provider: 'e2b',
    sandboxId,
    requestId,
    cause,
    hint: 'Programs continue: find them with getProcess(id), and go on with output({ after }).',
  })
}

interface VendorError {
  readonly name?: unknown
  readonly code?: unknown
  readonly statusCode?: unknown
  readonly cause?: unknown
  readonly isWireError?: unknown
}

function classified(error: unknown): { code: SandboxErrorCode; status?: number } {
  const { name, code, statusCode } = error as VendorError
  if (typeof statusCode === 'number') return { code: byStatus(statusCode), status: statusCode }
  const named = typeof name === 'string' ? byClass[name] : undefined
  if (named) return { code: named }
  // The SDK's Connect errors, from calls to its RPC client.
  if (name === 'ConnectError' && typeof code === 'number') {
    const inner = (error as VendorError).cause
    if (code === unknownCode && inner instanceof Error) return { code: byCause(inner) ?? 'connection_lost' }
    // The client itself raised it for a response that it could not parse; the request was valid.
    if (code === invalidCode && (error as VendorError).isWireError === false)
      return { code: 'provider_error' }
    return { code: byConnectCode[code] ?? 'provider_error' }
  }
  return { code: byCause(error) ?? 'provider_error' }
}

/** Connection failures carry a code of Node or undici somewhere in their causes. */
function byCause(error: unknown): SandboxErrorCode | undefined {
  let at: unknown = error
  for (let depth = 0; at instanceof Error && depth < 6; at = at.cause, depth += 1) {
    const { code, name } = at as VendorError
    const known = typeof code === 'string' ? byFault[code] : undefined
    if (known) return known
    if (name === 'SyntaxError') return 'provider_error'
    if (name === 'TimeoutError') return 'timeout'
    if (name === 'AbortError') return 'aborted'
  }
  // Fetch reports a connection that broke off as a TypeError without a code.
  return error instanceof TypeError ? 'connection_lost' : undefined
}

function byStatus(status: number): SandboxErrorCode {
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

const byClass: Readonly<Record<string, SandboxErrorCode>> = {
  AuthenticationError: 'unauthenticated',
  RateLimitError: 'rate_limited',
  ServiceBusyError: 'unavailable',
  SandboxNotFoundError: 'not_found',
  FileNotFoundError: 'file_not_found',
  NotFoundError: 'not_found',
  InvalidArgumentError: 'invalid_argument',
  NotEnoughSpaceError: 'disk_full',
  TemplateError: 'unsupported',
  TimeoutError: 'timeout',
}

/** Numbers of the Connect protocol. */
const unknownCode = 2
const invalidCode = 3
const byConnectCode: Readonly<Record<number, SandboxErrorCode>> = {
  1: 'aborted',
  3: 'invalid_argument',
  4: 'timeout',
  5: 'not_found',
  6: 'file_exists',
  7: 'forbidden',
  8: 'rate_limited',
  9: 'conflict',
  12: 'unsupported',
  14: 'unavailable',
  16: 'unauthenticated',
}

const byFault: Readonly<Record<string, SandboxErrorCode>> = {
  ECONNREFUSED: 'unavailable',
  ENOTFOUND: 'unavailable',
  EAI_AGAIN: 'unavailable',
  EHOSTUNREACH: 'unavailable',
  ENETUNREACH: 'unavailable',
  UND_ERR_CONNECT_TIMEOUT: 'unavailable',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
  UND_ERR_BODY_TIMEOUT: 'timeout',
  ECONNRESET: 'connection_lost',
  EPIPE: 'connection_lost',
  UND_ERR_SOCKET: 'connection_lost',
}

const hints: Partial<Record<SandboxErrorCode, string>> = {
  unauthenticated: 'Check apiKey (E2B_API_KEY), and that it belongs to apiUrl.',
  rate_limited: 'Try again later. The E2B SDK has already used its retries.',
  timeout: 'Try again, or raise requestTimeoutMs.',
}
