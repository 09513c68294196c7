import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Caller, Scope } from '../keys/index.ts'

/**
 * One route of the API as data: its path, scope, schemas and handler. The server and the OpenAPI document are both
 * built from these objects.
 */
export interface Route {
  /** Its name in the document, in metrics and in the audit log. */
  readonly id: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With `{name}` for parameters. */
  readonly path: string
  readonly access: Access
  readonly summary: string
  readonly tag: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  /** `stream`: the bytes as they come, of any type. */
  readonly body?: z.ZodType | 'stream'
  /**
   * Its JSON carries content or programs, and may be as large as `max_body_mb` allows; that of other routes 512 KiB.
   */
  readonly largeBody?: true
  readonly answer: Answer
  handle(call: Call): Promise<unknown>
}

/** `public` needs no key; `operator` needs an admin key of the operator's own project. */
export type Access = 'public' | Scope | 'operator'

export interface Answer {
  readonly status?: number
  readonly description: string
  /** The schema of a JSON response; `types` for any other. */
  readonly schema?: z.ZodType
  readonly types?: readonly string[]
}

/** A checked request. */
export interface Call<P = unknown, Q = unknown, B = unknown> {
  readonly caller: Caller
  readonly params: P
  readonly query: Q
  readonly body: B
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** Fires when the client goes away before it has its answer. */
  readonly signal: AbortSignal
}

type Parsed<T> = T extends z.ZodType ? z.infer<T> : T extends 'stream' ? NodeJS.ReadableStream : undefined

/** Types a route's handler by the route's schemas. */
export function route<
  P extends z.ZodObject | undefined = undefined,
  Q extends z.ZodObject | undefined = undefined,
  B extends z.ZodType | 'stream' | undefined = undefined,
>(
  spec: Omit<Route, 'params' | 'query' | 'body' | 'handle'> & {
    params?: P
    query?: Q
    body?: B
    handle(call: Call<Parsed<P>, Parsed<Q>, Parsed<B>>): Promise<unknown>
  },
): Route {
  return spec as unknown as Route
}

/** A handler returns this when it has sent the response itself, or will. */
export const answered = Symbol('answered')
