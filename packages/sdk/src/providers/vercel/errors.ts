import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { abortedError } from '../../shared/calls/abort.ts'
import { retryAfterOf } from '../../shared/calls/retry-after.ts'

/**
 * Carries our error through the SDK. Its name makes the SDK treat it as a cancelled request, which the SDK does not retry.
 * Otherwise the SDK would send every request up to three times, including commands.
 */
export class Refused extends Error {
  override readonly name = 'AbortError'
  readonly error: SandboxError

  constructor(error: SandboxError) {
    super(error.message, { cause: error })
    this.error = error
  }
}

export function errorOfAnswer(
  answer: { status: number; headers: Headers; text: string },
  secrets: readonly string[],
): SandboxError {
  const { code: vendorCode, message } = bodyOf(answer.text)
  const code = codeOf(answer.status, vendorCode)
  const requestId = answer.headers.get('x-vercel-id') ?? answer.headers.get('x-request-id') ?? undefined
  const retryAfterMs = retryAfterOf(answer.headers.get('retry-after'))
  return new SandboxError(
    code,
    `Vercel returned ${answer.status}${message ? `: ${without(message, secrets)}` : ''}.`,
    {
      provider: 'vercel',
      requestId,
      hint: hints[code],
      details: {
        status: answer.status,
        vendorCode,
        retryAfterMs,
      },
    },
  )
}

export function translated(
  error: unknown,
  options: { signal?: AbortSignal | undefined; what?: string } = {},
): unknown {
  if (options.signal?.aborted) return abortedError(options.signal, options.what)
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth += 1) {
    if (at instanceof Refused) return at.error
    if (SandboxError.is(at)) return at
  }
  const { name, code, response, message } = error as {
    name?: string
    code?: unknown
    response?: { status?: number; headers?: Headers }
    message?: string
  }
  if (name === 'StreamError')
    return new SandboxError(
      code === 'sandbox_stopped' ? 'not_running' : 'connection_lost',
      `Vercel ended a stream early (${String(code)}).`,
      { provider: 'vercel', cause: error, details: { vendorCode: code } },
    )
  const requestId = response?.headers?.get?.('x-vercel-id') ?? response?.headers?.get?.('x-request-id')
  return new SandboxError('provider_error', `Vercel’s SDK failed: ${String(message).slice(0, 300)}`, {
    provider: 'vercel',
    cause: error,
    requestId: requestId || undefined,
  })
}

export async function translating<T>(
  work: Promise<T>,
  options: { signal?: AbortSignal | undefined; what?: string } = {},
): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw translated(error, options)
  }
}

function codeOf(status: number, vendorCode: string | undefined): SandboxErrorCode {
  if (
    vendorCode === 'sandbox_stopped' ||
    vendorCode === 'sandbox_stopping' ||
    vendorCode === 'sandbox_snapshotting'
  )
    return 'not_running'
  if (vendorCode === 'snapshot_not_found') return 'not_found'
  if (vendorCode === 'unsupported') return 'unsupported'
  const known = byStatus[status]
  if (known) return known
  if (status >= 500) return status === 501 ? 'unsupported' : 'provider_error'
  return status >= 400 ? 'invalid_argument' : 'provider_error'
}

const byStatus: Readonly<Record<number, SandboxErrorCode>> = {
  401: 'unauthenticated',
  402: 'quota_exceeded',
  403: 'forbidden',
  404: 'not_found',
  408: 'timeout',
  409: 'conflict',
  410: 'not_running',
  413: 'too_large',
  429: 'rate_limited',
  502: 'unavailable',
  503: 'unavailable',
  504: 'timeout',
}

const hints: Partial<Record<SandboxErrorCode, string>> = {
  unauthenticated: 'Check token, teamId and projectId; the token must belong to the team.',
  forbidden: 'The token is valid but lacks this permission: check teamId, projectId and the token’s scope.',
  invalid_argument: 'Change the value that the message names: an option of create(), a region, an image.',
}

function bodyOf(text: string): { code?: string; message?: string } {
  try {
    const { error } = JSON.parse(text) as { error?: { code?: unknown; message?: unknown } }
    return {
      code: typeof error?.code === 'string' ? error.code : undefined,
      message:
        typeof error?.message === 'string' ? error.message.slice(0, 500).replace(/\.+$/, '') : undefined,
    }
  } catch {
    // An HTML error page from a proxy.
    return {}
  }
}

function without(message: string, secrets: readonly string[]): string {
  return secrets.reduce((text, secret) => text.replaceAll(secret, '***'), message)
}
