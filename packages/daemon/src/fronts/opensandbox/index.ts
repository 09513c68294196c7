import type { FastifyInstance } from 'fastify'
import type { Front, FrontPlace } from '../front.ts'
import { codeRoutes } from './code.ts'
import { commandRoutes } from './commands.ts'
import { Desk } from './desk.ts'
import { egressRoutes } from './egress.ts'
import { endpointRoutes } from './endpoints.ts'
import { refuse } from './errors.ts'
import { fileRoutes } from './files.ts'
import { folderRoutes } from './folders.ts'
import { isolatedRoutes } from './isolated.ts'
import { lifecycleRoutes } from './lifecycle.ts'
import { metricRoutes } from './metrics.ts'
import { sessionRoutes } from './sessions.ts'
import { snapshotRoutes } from './snapshots.ts'

/**
 * OpenSandbox's wire, all of it at one address, told apart by path:
 *
 *     /v1/…                             sandboxes, snapshots, endpoints
 *     /sandboxes/<id>/port/44772/…      what its daemon inside (execd) answers: commands, code, files, metrics
 *     /sandboxes/<id>/port/18080/…      what its egress sidecar answers
 *
 * Other ports of a sandbox are at the listener of previews: what is served there is not ours, and shares no origin with this.
 */
export const opensandboxFront: Front = {
  name: 'opensandbox',
  register(app: FastifyInstance, place: FrontPlace) {
    const desk = new Desk(app, place)
    lifecycleRoutes(desk)
    snapshotRoutes(desk)
    endpointRoutes(desk)
    commandRoutes(desk)
    sessionRoutes(desk)
    codeRoutes(desk)
    fileRoutes(desk)
    folderRoutes(desk)
    metricRoutes(desk)
    isolatedRoutes(desk)
    egressRoutes(desk)
  },
  refuse,
}
