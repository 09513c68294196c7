import type { SandboxError, SandboxErrorCode } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'
import type { FrontRefusal } from '../front.ts'
import { neutralHint, refusalHeaders } from '../shared/refusal-headers.ts'

/** Translates our errors to the vendor's `{ error: { code, message } }`. */
export function refuse(error: SandboxError, request: FastifyRequest): FrontRefusal {
  const { vercelCode } = error.details
  const code = typeof vercelCode === 'string' ? vercelCode : (codes[error.code] ?? error.code)
  return {
    status: statusOf(error, request),
    body: { error: { code, message: `${error.message} ${neutralHint(error)}`.trim() } },
    headers: refusalHeaders(error, request),
  }
}

/** The response of a stopped sandbox. The SDK then gets the sandbox again with `resume`, and repeats the call. */
const codes: Partial<Record<SandboxErrorCode, string>> = {
  not_running: 'sandbox_stopped',
  interrupted: 'sandbox_stopped',
  gone: 'sandbox_stopped',
  invalid_argument: 'bad_request',
  unsupported: 'unsupported',
  unauthenticated: 'forbidden',
}

function statusOf(error: SandboxError, request: FastifyRequest): number {
  if (codes[error.code] === 'sandbox_stopped') return 410
  if (error.code === 'unsupported') return 400
  // The SDK repeats a request after any 5xx, which would run a command twice. So a 5xx is sent only if nothing has begun.
  if (error.status >= 500 && error.code !== 'unavailable' && request.method !== 'GET') return 422
  return error.status === 499 ? 400 : error.status
}
