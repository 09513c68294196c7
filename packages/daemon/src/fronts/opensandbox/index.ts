import type { FrontFactory } from '../front.ts'
import { codeRoutes } from './code/contexts.ts'
import { sessionRoutes } from './code/shells.ts'
import { egressRoutes } from './egress.ts'
import { endpointRoutes } from './endpoints.ts'
import { Entry } from './entry.ts'
import { fileRoutes } from './files.ts'
import { folderRoutes } from './filesystem/folders.ts'
import { isolatedRoutes } from './isolated.ts'
import { metricRoutes } from './metrics.ts'
import { processRoutes } from './processes.ts'
import { refuse } from './refusal.ts'
import { sandboxRoutes } from './sandboxes.ts'
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
  const entry = new Entry(app, place)
  sandboxRoutes(entry)
  snapshotRoutes(entry)
  endpointRoutes(entry)
  processRoutes(entry)
  sessionRoutes(entry)
  codeRoutes(entry)
  fileRoutes(entry)
  folderRoutes(entry)
  metricRoutes(entry)
  isolatedRoutes(entry)
  egressRoutes(entry)
  return { refuse }
}
