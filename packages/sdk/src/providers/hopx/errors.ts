import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { retryAfterOf } from '../../shared/calls/retry-after.ts'

/** A response of the vendor, whatever its status. */
export interface Answer {
  readonly status: number
  readonly text: string
  header(name: string): string | undefined
}

export interface ErrorFacts {
  readonly what: string
  readonly sandboxId?: string | undefined
  /** The credential of the request, which the vendor's message must not repeat. */
  readonly secret?: string | undefined
}

/** Classifies by the vendor's code and the status. The SDK's own classes depend on words of the message. */
export function errorOfAnswer(answer: Answer, { what, sandboxId, secret }: ErrorFacts): SandboxError {
  const { code: vendorCode, message } = bodyOf(answer.text)
  const code = byVendorCode[vendorCode?.toUpperCase() ?? ''] ?? codeOf(answer.status)
  return new SandboxError(code, `${what}: ${sentences[code] ?? 'Hopx returned an error'}.`, {
    provider: 'hopx',
    sandboxId,
    requestId: answer.header('x-request-id') ?? answer.header('cf-ray'),
    hint: hints[code],
    cause:
      message === undefined ? undefined : new Error(secret ? message.replaceAll(secret, '***') : message),
    details: {
      status: answer.status,
      vendorCode,
      retryAfterMs: retryAfterOf(answer.header('retry-after')),
    },
  })
}

/** The response has a status of success, but another content: it may come from a proxy. */
export function garbled({ what, sandboxId }: ErrorFacts, answer?: Answer): SandboxError {
  return new SandboxError('provider_error', `${what}: Hopx returned an unexpected response.`, {
    provider: 'hopx',
    sandboxId,
    requestId: answer?.header('x-request-id'),
    details: { garbled: true, status: answer?.status },
  })
}

/** No complete response. */
export function unanswered({ what, sandboxId }: ErrorFacts, cause: unknown, timedOut: boolean): SandboxError {
  const code = timedOut ? 'timeout' : 'connection_lost'
  return new SandboxError(code, `${what}: ${sentences[code]}.`, {
    provider: 'hopx',
    sandboxId,
    hint: hints[code],
    // The SDK's error has the request, with the credentials, in its own cause.
    cause: new Error(cause instanceof Error ? cause.message : 'no response'),
  })
}

const byVendorCode: Readonly<Record<string, SandboxErrorCode>> = {
  SANDBOX_NOT_FOUND: 'not_found',
  SANDBOX_EXPIRED: 'not_running',
  SANDBOX_STOPPED: 'not_running',
  SANDBOX_CREATING: 'unavailable',
  TOKEN_EXPIRED: 'unauthenticated',
  TOKEN_INVALID: 'unauthenticated',
  INVALID_REQUEST: 'invalid_argument',
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
  501: 'unsupported',
  502: 'unavailable',
  503: 'unavailable',
  504: 'timeout',
}

function codeOf(status: number): SandboxErrorCode {
  return byStatus[status] ?? (status >= 400 && status < 500 ? 'invalid_argument' : 'provider_error')
}

const sentences: Partial<Record<SandboxErrorCode, string>> = {
  unauthenticated: 'Hopx does not accept the API key',
  forbidden: 'Hopx does not allow it',
  quota_exceeded: 'the organization’s quota at Hopx is exceeded',
  not_found: 'Hopx cannot find it',
  not_running: 'the sandbox does not run',
  conflict: 'Hopx reports that the sandbox is in another state',
  invalid_argument: 'Hopx refused the request as invalid',
  rate_limited: 'Hopx received too many requests',
  unsupported: 'this Hopx server does not support it',
  unavailable: 'Hopx is unavailable',
  timeout: 'Hopx did not answer in time',
  connection_lost: 'the connection to Hopx was lost',
  too_large: 'Hopx reports that it is too large',
}

const hints: Partial<Record<SandboxErrorCode, string>> = {
  unauthenticated: 'Check `apiKey`, or HOPX_API_KEY; create a key at console.hopx.dev.',
  quota_exceeded: 'The cause has the vendor’s message. Destroy unused sandboxes, or raise the limits.',
  invalid_argument: 'The cause has the vendor’s message.',
  timeout: 'Try again, or raise `requestTimeoutMs` of the provider.',
  connection_lost: 'Check `apiUrl` and the network; running programs continue.',
}

function bodyOf(text: string): { code?: string | undefined; message?: string | undefined } {
  try {
    const body = JSON.parse(text) as { code?: unknown; message?: unknown; error?: unknown } | null
    const inner = (typeof body?.error === 'object' ? body.error : body) as typeof body
    const [code, message] = [body?.code ?? inner?.code, body?.message ?? inner?.message ?? body?.error]
    return {
      code: typeof code === 'string' ? code.slice(0, 100) : undefined,
      message: typeof message === 'string' ? message.slice(0, 500) : undefined,
    }
  } catch {
    // A page of a proxy.
    return {}
  }
}
