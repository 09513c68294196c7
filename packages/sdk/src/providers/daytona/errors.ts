import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { retryAfterOf } from '../../shared/calls/retry-after.ts'

/** Classifies the vendor's failures by status and class. Message text is used only for quotas, which have no code. */
export function translated(error: unknown, what: string, sandboxId?: string): SandboxError {
  if (SandboxError.is(error)) return error
  const { statusCode, headers, name, code, message } = (error ?? {}) as VendorError
  const requestId = headerOf(headers, 'x-request-id') ?? headerOf(headers, 'cf-ray')
  const retryAfterMs = retryAfterOf(headerOf(headers, 'retry-after'))
  const known = isQuota(statusCode, message) ? 'quota_exceeded' : codeOf(statusCode, name)
  return new SandboxError(known, `${what}: ${sentences[known] ?? 'Daytona returned an error'}.`, {
    provider: 'daytona',
    cause: error,
    sandboxId,
    requestId,
    hint: hints[known],
    details: {
      status: statusCode,
      vendorCode: typeof code === 'string' ? code : undefined,
      retryAfterMs,
    },
  })
}

export async function translating<T>(
  what: string,
  sandboxId: string | undefined,
  work: Promise<T>,
): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw translated(error, what, sandboxId)
  }
}

/** Whether the SDK itself refused the arguments, without sending a request. */
export function isUnsent(error: unknown): boolean {
  return ((error ?? {}) as VendorError).name === 'DaytonaInvalidArgumentError'
}

interface VendorError {
  readonly statusCode?: number
  readonly headers?: unknown
  readonly name?: string
  readonly code?: unknown
  readonly message?: unknown
}

const byStatus: Readonly<Record<number, SandboxErrorCode>> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  408: 'timeout',
  409: 'conflict',
  410: 'not_found',
  413: 'too_large',
  422: 'invalid_argument',
  429: 'rate_limited',
  501: 'unsupported',
  502: 'unavailable',
  503: 'unavailable',
  504: 'timeout',
}

/** The SDK's own failures without a status. */
const byName: Readonly<Record<string, SandboxErrorCode>> = {
  DaytonaConnectionError: 'connection_lost',
  DaytonaConnectionTimeoutError: 'timeout',
  DaytonaTimeoutError: 'timeout',
  DaytonaAuthenticationError: 'unauthenticated',
  DaytonaInvalidArgumentError: 'invalid_argument',
  DaytonaNotFoundError: 'not_found',
}

/**
 * The vendor reports an exceeded quota as forbidden, without a code (daytonaio/daytona, issue 3304): “Total CPU limit
 * exceeded. Maximum allowed: 10.”, “Disk request 20GB exceeds maximum allowed per sandbox (10GB).” Other texts stay
 * `forbidden`.
 */
function isQuota(status: number | undefined, message: unknown): boolean {
  return (status === 403 || status === 400) && quotaWords.test(String(message))
}

const quotaWords = /\blimit exceeded\. Maximum allowed\b|\bexceeds maximum allowed per sandbox\b/i

function codeOf(status: number | undefined, name: string | undefined): SandboxErrorCode {
  // A success status with an incomplete body.
  if (status !== undefined && status < 300) return 'connection_lost'
  if (status !== undefined) return byStatus[status] ?? 'provider_error'
  return byName[name ?? ''] ?? 'provider_error'
}

const sentences: Partial<Record<SandboxErrorCode, string>> = {
  unauthenticated: 'Daytona does not accept the API key',
  forbidden: 'Daytona does not allow it: the key lacks a permission, or a quota is used up',
  quota_exceeded: 'the organisation’s quota at Daytona is exceeded',
  not_found: 'Daytona cannot find it',
  conflict: 'Daytona reports that it exists already, or is in another state',
  invalid_argument: 'Daytona refused the request as invalid',
  rate_limited: 'Daytona received too many requests',
  unsupported: 'this Daytona server does not support it',
  unavailable: 'Daytona is unavailable',
  timeout: 'Daytona did not answer in time',
  connection_lost: 'the connection to Daytona was lost',
  too_large: 'Daytona reports that it is too large',
}

const hints: Partial<Record<SandboxErrorCode, string>> = {
  unauthenticated: 'Check `apiKey`, or DAYTONA_API_KEY; create a key at app.daytona.io.',
  forbidden: 'Check the key’s permissions and the organisation’s limits.',
  quota_exceeded:
    'The cause has the vendor’s message. Destroy unused sandboxes, or raise the organisation’s limits.',
  invalid_argument: 'The cause has the vendor’s message.',
  timeout: 'Try again, or raise `requestTimeoutMs` of the provider.',
  connection_lost: 'Check `apiUrl` and the network; running programs continue.',
}

function headerOf(headers: unknown, name: string): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  return typeof found === 'string' || typeof found === 'number' ? String(found) : undefined
}
