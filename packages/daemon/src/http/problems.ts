import { errorTable, SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'
import { z } from 'zod'

export const problemType = 'application/problem+json'

/** RFC 9457, with the fields of our error table. */
export const problemSchema = z.object({
  type: z.string().describe('`urn:sandkasten:problem:` and the code.'),
  title: z.string(),
  status: z.int(),
  detail: z.string().describe('What failed, as text for people.'),
  code: z.enum(Object.keys(errorTable) as [SandboxErrorCode, ...SandboxErrorCode[]]),
  hint: z.string().describe('What to do, in terms of this API.'),
  hints: z
    .object({ sdk: z.string(), cli: z.string() })
    .optional()
    .describe('The hint in terms of the SDK and of the command line, where these differ.'),
  retryable: z.boolean(),
  details: z.record(z.string(), z.unknown()).describe('Structured details.'),
  request_id: z.string().optional(),
})

export type Problem = z.infer<typeof problemSchema>

export function problemOf(error: unknown, requestId?: string): Problem {
  const known = translate(error)
  const { sdk, http, cli } = known.hints
  return {
    type: `urn:sandkasten:problem:${known.code}`,
    title: known.code.replaceAll('_', ' '),
    status: known.status,
    detail: known.message,
    code: known.code,
    hint: http,
    hints: sdk === http && cli === http ? undefined : { sdk, cli },
    retryable: known.retryable,
    details: { ...known.details },
    request_id: requestId,
  }
}

export function retryAfterSeconds(problem: Problem): number | undefined {
  const { retryAfterMs } = problem.details
  if (typeof retryAfterMs === 'number') return Math.max(1, Math.ceil(retryAfterMs / 1000))
  return problem.status === 503 ? 1 : undefined
}

/** Returns our errors unchanged and maps Fastify's by status. Other errors become `internal`, without their text. */
export function translate(error: unknown): SandboxError {
  if (SandboxError.is(error)) return error
  const { statusCode, message } = error as { statusCode?: unknown; message?: unknown }
  const code = typeof statusCode === 'number' ? byStatus[statusCode] : undefined
  if (code !== undefined) return new SandboxError(code, String(message), { cause: error, hint: hints[code] })
  return new SandboxError('internal', 'Something went wrong in the daemon.', { cause: error })
}

const byStatus: Record<number, SandboxErrorCode> = {
  400: 'invalid_argument',
  404: 'not_found',
  408: 'timeout',
  413: 'too_large',
  414: 'invalid_argument',
  415: 'invalid_argument',
  431: 'too_large',
}

/** Hints for malformed requests. Our SDK and command line do not send such requests, so HTTP hints are enough. */
const hints: Partial<Record<SandboxErrorCode, string>> = { timeout: 'Send the request faster.' }
