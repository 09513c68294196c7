import { SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'
import type { FrontRefusal } from '../front.ts'
import { neutralHint, refusalHeaders } from '../shared/refusal-headers.ts'

/** Errors as E2B answers them: two shapes, one for its control plane and files, one for Connect calls. */

export function refuse(error: SandboxError, request: FastifyRequest): FrontRefusal {
  const headers = refusalHeaders(error, request)
  if (isGone(error)) return { status: 502, body: gone(error), headers }
  if (isCall(request.url)) {
    const code = callCode(error)
    return { status: callStatus[code] ?? 500, body: { code, message: error.message }, headers }
  }
  return {
    status: statusOf(error),
    body: { code: statusOf(error), message: `${error.message} ${neutralHint(error)}`.trim() },
    headers,
  }
}

/** A call of the Connect protocol: `/package.Service/Method`. */
export function isCall(url: string): boolean {
  return /^\/(process\.Process|filesystem\.Filesystem)\//.test(url)
}

/** The error of E2B's proxy for a sandbox that cannot respond. */
export function sandboxGone(sandboxId: string, message = 'The sandbox was not found'): SandboxError {
  return new SandboxError('unavailable', message, { details: { e2bGone: sandboxId } })
}

export function isGone(error: SandboxError): boolean {
  return typeof error.details.e2bGone === 'string'
}

export function gone(error: SandboxError): object {
  const { e2bGone: sandboxId, port } = error.details
  return { sandboxId, message: error.message, code: 502, port }
}

function statusOf({ code, status }: SandboxError): number {
  if (code === 'cwd_not_found' || code === 'command_not_found') return 400
  // A path of the wrong kind is the caller's mistake, not a conflict.
  if (code === 'is_a_directory' || code === 'not_a_directory') return 400
  return status === 499 ? 408 : status
}

export type CallCode =
  | 'canceled'
  | 'invalid_argument'
  | 'deadline_exceeded'
  | 'not_found'
  | 'already_exists'
  | 'permission_denied'
  | 'resource_exhausted'
  | 'failed_precondition'
  | 'unimplemented'
  | 'internal'
  | 'unavailable'
  | 'unauthenticated'

export function callCode(error: SandboxError): CallCode {
  if (isGone(error)) return 'unavailable'
  return callCodes[error.code]
}

const callCodes: Readonly<Record<SandboxErrorCode, CallCode>> = {
  invalid_argument: 'invalid_argument',
  path_outside: 'invalid_argument',
  unauthenticated: 'unauthenticated',
  forbidden: 'permission_denied',
  not_found: 'not_found',
  file_not_found: 'not_found',
  command_not_found: 'invalid_argument',
  cwd_not_found: 'invalid_argument',
  conflict: 'failed_precondition',
  file_exists: 'already_exists',
  not_a_directory: 'invalid_argument',
  is_a_directory: 'invalid_argument',
  directory_not_empty: 'failed_precondition',
  permission_denied: 'permission_denied',
  not_running: 'unavailable',
  stdin_closed: 'failed_precondition',
  interrupted: 'unavailable',
  gone: 'not_found',
  too_large: 'resource_exhausted',
  rate_limited: 'resource_exhausted',
  quota_exceeded: 'resource_exhausted',
  aborted: 'canceled',
  internal: 'internal',
  unsupported: 'unimplemented',
  sdk_missing: 'unimplemented',
  provider_error: 'internal',
  connection_lost: 'unavailable',
  unavailable: 'unavailable',
  timeout: 'deadline_exceeded',
  disk_full: 'resource_exhausted',
}

/** The Connect protocol's own table. */
const callStatus: Readonly<Record<string, number>> = {
  canceled: 499,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  unauthenticated: 401,
}
