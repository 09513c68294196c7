import type { FrontFactory } from '../front.ts'
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
 * OpenSandbox's API at one address. The path tells its parts apart:
 *
 *     /v1/…                             sandboxes, snapshots, endpoints
 *     /sandboxes/<id>/port/44772/…      its daemon in the sandbox (execd): commands, code, files, metrics
 *     /sandboxes/<id>/port/18080/…      its egress sidecar
 *
 * Other ports of a sandbox are served by the preview listener, because untrusted content must not share this origin.
 */
export const opensandboxFront: FrontFactory = (app, place) => {
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
  return { refuse }
}
