import type { SandboxError, SandboxErrorCode } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'
import type { FrontRefusal } from '../front.ts'
import { neutralHint, refusalHeaders } from '../shared/refusal-headers.ts'
import { execdPort } from './entry.ts'

/**
 * Errors as OpenSandbox answers them: `{code, message}`, with two sets of codes, one of its server and one of execd.
 */
export function refuse(error: SandboxError, request: FastifyRequest): FrontRefusal {
  const inside = request.url.includes(`/port/${execdPort}/`)
  const hint = error.code === 'unauthenticated' ? keyHint : neutralHint(error)
  return {
    status: statusOf(error, inside),
    body: { code: codeOf(error, request, inside), message: `${error.message} ${hint}`.trim() },
    headers: refusalHeaders(error, request),
  }
}

const keyHint = 'Send a key of this daemon as OPEN-SANDBOX-API-KEY.'

function codeOf(error: SandboxError, { headers }: FastifyRequest, inside: boolean): string {
  if (error.code === 'unauthenticated')
    return headers['open-sandbox-api-key'] === undefined ? 'MISSING_API_KEY' : 'INVALID_API_KEY'
  const { opensandboxCode } = error.details
  if (typeof opensandboxCode === 'string') return opensandboxCode
  return (inside ? execdCodes[error.code] : undefined) ?? codes[error.code] ?? 'INTERNAL_ERROR'
}

function statusOf({ code, status, details }: SandboxError, inside: boolean): number {
  if (typeof details.size === 'number' && code === 'invalid_argument') return 416
  // Wrong names in a request are the client's error, whatever they refer to.
  if (inside && mistakes.has(code)) return 400
  return status
}

const mistakes = new Set<SandboxErrorCode>([
  'cwd_not_found',
  'command_not_found',
  'is_a_directory',
  'not_a_directory',
  'directory_not_empty',
  'file_exists',
])

const codes: Partial<Record<SandboxErrorCode, string>> = {
  invalid_argument: 'SANDBOX::INVALID_PARAMETER',
  forbidden: 'FORBIDDEN',
  not_found: 'NOT_FOUND',
  conflict: 'CONFLICT',
  not_running: 'CONFLICT',
  interrupted: 'CONFLICT',
  gone: 'NOT_FOUND',
  command_not_found: 'SANDBOX::INVALID_PARAMETER',
  unsupported: 'SANDBOX::API_NOT_SUPPORTED',
  quota_exceeded: 'QUOTA_EXCEEDED',
  rate_limited: 'RATE_LIMITED',
  too_large: 'INVALID_REQUEST',
  unavailable: 'UNAVAILABLE',
}

const execdCodes: Partial<Record<SandboxErrorCode, string>> = {
  invalid_argument: 'INVALID_REQUEST_BODY',
  path_outside: 'INVALID_FILE',
  cwd_not_found: 'INVALID_REQUEST_BODY',
  command_not_found: 'INVALID_REQUEST_BODY',
  file_not_found: 'FILE_NOT_FOUND',
  file_exists: 'INVALID_FILE',
  is_a_directory: 'INVALID_FILE',
  not_a_directory: 'INVALID_FILE',
  directory_not_empty: 'INVALID_FILE',
  permission_denied: 'INVALID_FILE',
  too_large: 'INVALID_FILE_CONTENT',
  unsupported: 'NOT_SUPPORTED',
  internal: 'RUNTIME_ERROR',
  provider_error: 'RUNTIME_ERROR',
  connection_lost: 'RUNTIME_ERROR',
  disk_full: 'RUNTIME_ERROR',
  timeout: 'RUNTIME_ERROR',
}
