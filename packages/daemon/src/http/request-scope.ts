import type { FastifyInstance } from 'fastify'
import { type RequestScope, requestScope } from '../defects.ts'

/** Runs every request in a scope, so that an unhandled error fails only this request. */
export function scopeRequests(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    const scope: RequestScope = {
      id: request.id,
      fail: (error) => {
        if (reply.sent || reply.raw.headersSent) reply.raw.destroy()
        else reply.send(error)
      },
    }
    // Work that outlives the request must not keep its body and response in memory.
    reply.raw.once('close', () => {
      scope.fail = undefined
    })
    requestScope.run(scope, done)
  })
}
