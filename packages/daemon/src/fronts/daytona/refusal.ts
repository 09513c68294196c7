import type { SandboxError, SandboxErrorCode } from '@sandkasten/sdk'
import type { FrontRefusal } from '../front.ts'
import { refusalHeaders } from '../shared/refusal-headers.ts'

/** Maps our errors to the vendor's statuses and codes. Its SDKs choose error classes by these codes. */
const words: Readonly<Partial<Record<SandboxErrorCode, readonly [status: number, code: string]>>> = {
  invalid_argument: [400, 'BAD_REQUEST'],
  path_outside: [400, 'BAD_REQUEST'],
  cwd_not_found: [400, 'BAD_REQUEST'],
  command_not_found: [400, 'BAD_REQUEST'],
  is_a_directory: [400, 'BAD_REQUEST'],
  not_a_directory: [400, 'BAD_REQUEST'],
  directory_not_empty: [400, 'BAD_REQUEST'],
  unauthenticated: [401, 'UNAUTHORIZED'],
  forbidden: [403, 'FORBIDDEN'],
  quota_exceeded: [403, 'FORBIDDEN'],
  permission_denied: [403, 'FILE_ACCESS_DENIED'],
  not_found: [404, 'NOT_FOUND'],
  file_not_found: [404, 'FILE_NOT_FOUND'],
  timeout: [408, 'REQUEST_TIMEOUT'],
  conflict: [409, 'CONFLICT'],
  file_exists: [409, 'CONFLICT'],
  not_running: [409, 'CONFLICT'],
  interrupted: [409, 'CONFLICT'],
  stdin_closed: [410, 'COMMAND_ALREADY_COMPLETED'],
  gone: [410, 'GONE'],
  too_large: [413, 'PAYLOAD_TOO_LARGE'],
  rate_limited: [429, 'TOO_MANY_REQUESTS'],
  unsupported: [501, 'NOT_IMPLEMENTED'],
}

/** `details.daytonaCode` overrides the mapped code with a more specific one. */
export function refuse(
  error: SandboxError,
  request: { id: string; method: string; url: string },
): FrontRefusal & { body: ErrorBody } {
  const [status, code] = words[error.code] ?? [error.status, 'INTERNAL_SERVER_ERROR']
  const { daytonaCode } = error.details
  const path = request.url.split('?')[0]!
  return {
    status,
    headers: refusalHeaders(error, request),
    body: {
      statusCode: status,
      message: messageOf(error),
      code: typeof daytonaCode === 'string' ? daytonaCode : code,
      source: path.startsWith('/toolbox/') ? 'DAYTONA_DAEMON' : 'DAYTONA_API',
      timestamp: new Date().toISOString(),
      method: request.method,
      path,
    },
  }
}

/** The vendor has no code for quotas, so clients recognize them by this text. */
function messageOf({ code, message, details: { quota, limit } }: SandboxError): string {
  if (code !== 'quota_exceeded' || limit === undefined) return message
  return `Total ${quotas[String(quota)] ?? quota} limit exceeded. Maximum allowed: ${limit}. ${message}`
}

const quotas: Readonly<Record<string, string>> = {
  sessions: 'sandbox',
  cpu: 'CPU',
  mem_mb: 'memory',
  disk_mb: 'disk',
}

export interface ErrorBody {
  statusCode: number
  message: string
  code: string
  source: string
  timestamp: string
  method: string
  path: string
}
