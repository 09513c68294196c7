import { SandboxError } from '@sandkasten/sdk'
import type { z } from 'zod'
import type { FrontCall } from './route.ts'

/** Checks a request with its schema. A missing body counts as an empty object. */
export function parsed<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> {
  const result = schema.safeParse(value ?? {})
  if (result.success) return result.data
  const [first] = result.error.issues
  const where = first?.path.length ? `${first.path.join('.')}: ` : ''
  throw new SandboxError('invalid_argument', `Invalid request: ${where}${first?.message}.`, {
    hint: 'Correct it.',
  })
}

/** The value of a required query parameter. */
export function needed({ query }: Pick<FrontCall, 'query'>, name: string): string {
  const value = query[name]
  if (typeof value === 'string' && value !== '') return value
  throw new SandboxError('invalid_argument', `Missing query parameter '${name}'.`, { hint: 'Add it.' })
}

/** Parses a port number. Undefined when the text is not a valid port. */
export function portOf(text: string): number | undefined {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0
  return port >= 1 && port <= 65_535 ? port : undefined
}

/** The port that the path names. */
export function neededPort({ params }: Pick<FrontCall, 'params'>): number {
  const port = portOf(params.port ?? '')
  if (port !== undefined) return port
  throw new SandboxError('invalid_argument', `${params.port} is not a port.`, {
    hint: 'Use a port from 1 to 65535.',
  })
}

/** The error for a feature of the vendor's API that this daemon does not have. */
export function notSupported(what: string, hint = 'Leave it out; see docs/fronts.md.'): SandboxError {
  return new SandboxError('unsupported', `${what} is not supported by this server.`, { hint })
}

/** For `catch`: turns `not_found` into undefined. */
export function ifMissing(error: unknown): undefined {
  if (!SandboxError.is(error, 'not_found')) throw error
  return undefined
}
