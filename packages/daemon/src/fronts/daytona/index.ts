import type { FrontFactory } from '../front.ts'
import { Routes } from './call.ts'
import { controlRoutes } from './control.ts'
import { EventSockets } from './event-socket.ts'
import { previewRoutes } from './previews.ts'
import { refuse } from './refuse.ts'
import { snapshotRoutes } from './snapshots.ts'
import { takeUpgrades } from './sockets.ts'
import { bulkRoutes } from './toolbox/bulk.ts'
import { fileRoutes } from './toolbox/files.ts'
import { gitRoutes } from './toolbox/git.ts'
import { processRoutes } from './toolbox/process.ts'
import { Ptys } from './toolbox/pty.ts'
import { searchRoutes } from './toolbox/search.ts'
import { ToolboxSessions } from './toolbox/sessions.ts'
import { systemRoutes } from './toolbox/system.ts'

/**
 * Daytona's API for its unchanged SDK (`@daytona/sdk`, `@daytonaio/sdk`). `apiUrl` is this listener's URL with `/api`, and
 * the key is one of ours. The control plane is below `/api`, the toolbox of each sandbox below `/toolbox/<id>`.
 */
export const daytonaFront: FrontFactory = (app, place) => {
  const events = new EventSockets(place)
  const routes = new Routes(app, place, events)
  const sessions = new ToolboxSessions(place)
  const ptys = new Ptys(place)
  app.get('/api/health', async (_, reply) => reply.type('application/json').send('{"status":"ok"}'))
  controlRoutes(routes)
  snapshotRoutes(routes)
  previewRoutes(routes)
  processRoutes(routes)
  sessions.register(routes)
  ptys.register(routes)
  fileRoutes(routes)
  bulkRoutes(routes)
  searchRoutes(routes)
  gitRoutes(routes)
  systemRoutes(routes)
  const sockets = takeUpgrades({ place, sessions, ptys, events })
  // Closing the listener waits for its connections, and upgraded ones would never end by themselves.
  app.addHook('preClose', () => sockets.close())
  app.addHook('onClose', () => sessions.close())
  return { refuse, upgrade: sockets.take }
}
