import type { FastifyInstance } from 'fastify'
import { type RequestScope, requestScope } from '../defects.ts'

/** Runs every request so that an error which nothing handles fails this request and no other. */
export function scopeRequests(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    const scope: RequestScope = {
      id: request.id,
      fail: (error) => {
        if (reply.sent || reply.raw.headersSent) reply.raw.destroy()
        else reply.send(error)
      },
    }
    // Work that outlives the request must not keep its body and its answer in memory.
    reply.raw.once('close', () => {
      scope.fail = undefined
    })
    requestScope.run(scope, done)
  })
}
