import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Services } from '../http/services.ts'
import type { Session } from '../sessions/index.ts'
import type { FrontRecords } from './records.ts'

/**
 * Adds a vendor's routes to its listener. Each route authenticates its request with `place.services.keys`.
 * The sandboxes of a front are ordinary sessions of the project that the caller's key belongs to.
 */
export type FrontFactory = (app: FastifyInstance, place: FrontPlace) => Front

/** A vendor's HTTP API, served by this daemon on a listener of its own. */
export interface Front {
  /** The vendor's response for an error. */
  refuse(error: SandboxError, request: FastifyRequest): FrontRefusal
  /**
   * Serves a request before the routes see it, such as one for a port of a sandbox. Returns false to leave it to them.
   */
  take?(request: IncomingMessage, response: ServerResponse): boolean
  /** Serves upgrades of connections. A front without it refuses them. */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

export interface FrontPlace {
  readonly services: Services
  /** Facts that only the vendor's API has about a session. Kept in the database, deleted with the session. */
  readonly records: FrontRecords
  /** The listener's URL for clients, without a trailing slash. Known once it listens. */
  readonly url: string
}

export interface FrontRefusal {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The handler gets the body as a stream, whatever its type. */
    streamed?: boolean
    /** The name in metrics and in the audit log. Default: the route's path. */
    action?: string
  }
  interface FastifyRequest {
    /** The target in the audit log. Default: the first parameter of the path. */
    target?: string
    /** Set by a handler of a GET that changes state, so that it is in the audit log. */
    changes?: boolean
    /** The session that the request was admitted to, if its front finds that out before the handler runs. */
    session?: Session
  }
}
