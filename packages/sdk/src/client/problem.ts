import { errorTable, type Hints, SandboxError, type SandboxErrorCode } from '../errors.ts'

/** The daemon's error response: RFC 9457, with the fields of our error table. */
export interface Problem {
  readonly status?: number
  readonly title?: string
  readonly detail?: string
  readonly code?: string
  /** For users of the HTTP API; `hints` has the variants for SDK and CLI where they differ. */
  readonly hint?: string
  readonly retryable?: boolean
  readonly hints?: { readonly sdk?: string; readonly cli?: string }
  readonly details?: Readonly<Record<string, unknown>>
  readonly request_id?: string
}

/** Converts a problem to the SandboxError that the daemon threw. */
export function errorOf(problem: Problem, status: number, requestId?: string): SandboxError {
  const id = problem.request_id ?? requestId
  return new SandboxError(
    codeOf(problem.code, status),
    problem.detail ?? `The daemon responded with status ${status}.`,
    {
      ...hintOf(problem),
      retryable: typeof problem.retryable === 'boolean' ? problem.retryable : undefined,
      requestId: id,
      details: { ...problem.details },
    },
  )
}

function hintOf({ hint, hints = {} }: Problem): { hint?: Hints } {
  if (typeof hint !== 'string') return {}
  const { sdk = hint, cli = hint } = hints
  return { hint: { sdk, http: hint, cli } }
}

/** The error of an unsuccessful response. Reads its body. */
export async function errorOfResponse(response: Response): Promise<SandboxError> {
  return errorOfText(response.status, response.headers, await response.text().catch(() => ''))
}

export function errorOfText(status: number, headers: Headers, text: string): SandboxError {
  const isJson = /json/.test(headers.get('content-type') ?? '')
  return errorOf(isJson ? parsed(text) : {}, status, headers.get('x-request-id') ?? undefined)
}

/** Our own codes stay; a response of a proxy is classified by its status. */
function codeOf(code: string | undefined, status: number): SandboxErrorCode {
  if (code !== undefined && Object.hasOwn(errorTable, code)) return code as SandboxErrorCode
  return byStatus[status] ?? (status >= 500 ? 'provider_error' : 'invalid_argument')
}

const byStatus: Readonly<Record<number, SandboxErrorCode>> = {
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  408: 'timeout',
  409: 'conflict',
  410: 'gone',
  413: 'too_large',
  429: 'rate_limited',
  502: 'unavailable',
  503: 'unavailable',
  504: 'timeout',
}

function parsed(text: string): Problem {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
