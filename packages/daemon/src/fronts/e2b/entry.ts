import type { FastifyInstance } from 'fastify'
import type { Scope } from '../../keys/index.ts'
import type { FrontPlace } from '../front.ts'
import { addRoute, type FrontCall, type FrontRoute } from '../shared/route.ts'
import type { Access } from './access.ts'

export interface Call extends FrontCall {
  /** The id in the path, or an empty text. */
  readonly id: string
}

/** Adds routes of E2B's control plane, which need an API key. The status is 204 if a handler returns nothing. */
export class Entry {
  readonly place: FrontPlace
  readonly #app: FastifyInstance
  readonly #access: Access

  constructor(app: FastifyInstance, place: FrontPlace, access: Access) {
    this.place = place
    this.#app = app
    this.#access = access
  }

  add(
    method: FrontRoute['method'],
    paths: readonly string[],
    scope: Scope,
    handle: (call: Call) => Promise<unknown>,
  ): void {
    for (const url of paths)
      addRoute(this.#app, this.place, {
        method,
        url,
        scope,
        callerOf: (request) => this.#access.key(request),
        handle: async (call) => {
          const answer = await handle({ ...call, id: call.params.id ?? '' })
          if (answer === undefined) call.reply.code(204)
          return answer
        },
      })
  }
}
