import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Caller, Scope } from '../keys/index.ts'

/**
 * One route of the API as data: its path, scope, schemas and handler. The server and the OpenAPI document are both
 * built from these objects.
 */
export interface Route {
  /** The name in the OpenAPI document, in metrics and in the audit log. */
  readonly id: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Parameters are written as `{name}`. */
  readonly path: string
  readonly access: Access
  readonly summary: string
  readonly tag: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  /** `stream`: the handler gets the body as a stream, whatever its type. */
  readonly body?: z.ZodType | 'stream'
  /** Raises the limit of a JSON body from 512 KiB to `max_body_mb`. For bodies with file content or programs. */
  readonly largeBody?: true
  readonly answer: Answer
  handle(call: Call): Promise<unknown>
}

/** `public` needs no key; `operator` needs an admin key of the operator's own project. */
export type Access = 'public' | Scope | 'operator'

export interface Answer {
  readonly status?: number
  readonly description: string
  /** The schema of a JSON response. Other responses have `types`. */
  readonly schema?: z.ZodType
  readonly types?: readonly string[]
}

/** A request that was authorized and validated. */
export interface Call<P = unknown, Q = unknown, B = unknown> {
  readonly caller: Caller
  readonly params: P
  readonly query: Q
  readonly body: B
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** Fires when the client disconnects before the response is sent. */
  readonly signal: AbortSignal
}

type Parsed<T> = T extends z.ZodType ? z.infer<T> : T extends 'stream' ? NodeJS.ReadableStream : undefined

/** Infers the types of a handler's arguments from the route's schemas. */
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

/** Returned by handlers that send the response themselves. */
export const answered = Symbol('answered')
