import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { FrontName } from '../config/index.ts'
import type { Services } from '../http/services.ts'
import type { FrontRecords } from './records.ts'

/**
 * A vendor's wire, spoken by this daemon. Each front has a listener of its own; its sandboxes are sessions like any
 * others, of the project that the caller's key belongs to.
 */
export interface Front {
  readonly name: FrontName
  /** Adds the vendor's routes. Whoever handles one finds out who asks, with `place.services.keys`. */
  register(app: FastifyInstance, place: FrontPlace): void
  /** An error as the vendor would answer it. */
  refuse(error: SandboxError, request: FastifyRequest): FrontRefusal
  /** Takes a request before any route sees it, such as one for a port of a sandbox. True when it has. */
  take?(request: IncomingMessage, response: ServerResponse, place: FrontPlace): boolean
  /** Takes upgrades of connections to this listener; without it they are refused. */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer, place: FrontPlace): void
}

export interface FrontPlace {
  readonly services: Services
  /** What a session is beside itself in the vendor's eyes: kept in the database, gone with the session. */
  readonly records: FrontRecords
  /** What clients call this listener, without a slash at its end. Known once it listens. */
  readonly url: string
}

export interface FrontRefusal {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The body is handed on as it comes, whatever its type. */
    streamed?: boolean
    /** For metrics and the audit log; default: the route's path. */
    action?: string
  }
  interface FastifyRequest {
    /** What it is about, for the audit log; default: what the first parameter of its path names. */
    target?: string
    /** Said by whoever handles a GET that changes something: then it is in the audit log, as other methods are. */
    changes?: boolean
  }
}
