import type { FrontFactory } from '../front.ts'
import { Entry } from './entry.ts'
import { EventSockets } from './event-sockets.ts'
import { fileRoutes } from './files.ts'
import { previewRoutes } from './previews.ts'
import { processRoutes } from './processes.ts'
import { refuse } from './refusal.ts'
import { sandboxRoutes } from './sandboxes.ts'
import { snapshotRoutes } from './snapshots.ts'
import { bulkRoutes } from './toolbox/bulk-files.ts'
import { gitRoutes } from './toolbox/git.ts'
import { Ptys } from './toolbox/pty.ts'
import { searchRoutes } from './toolbox/search.ts'
import { ToolboxSessions } from './toolbox/sessions.ts'
import { systemRoutes } from './toolbox/system.ts'
import { takeUpgrades } from './upgrades.ts'

/**
 * Daytona's API for its unchanged SDK (`@daytona/sdk`, `@daytonaio/sdk`). `apiUrl` is this listener's URL with `/api`,
 * and the key is one of ours. The control plane is below `/api`, the toolbox of each sandbox below `/toolbox/<id>`.
 */
export const daytonaFront: FrontFactory = (app, place) => {
  const events = new EventSockets(place)
  const entry = new Entry(app, place, events)
  const sessions = new ToolboxSessions(place)
  const ptys = new Ptys(place)
  app.get('/api/health', async (_, reply) => reply.type('application/json').send('{"status":"ok"}'))
  sandboxRoutes(entry)
  snapshotRoutes(entry)
  previewRoutes(entry)
  processRoutes(entry)
  sessions.register(entry)
  ptys.register(entry)
  fileRoutes(entry)
  bulkRoutes(entry)
  searchRoutes(entry)
  gitRoutes(entry)
  systemRoutes(entry)
  const sockets = takeUpgrades({ place, sessions, ptys, events })
  // Closing the listener waits for its connections, and upgraded ones would never end by themselves.
  app.addHook('preClose', () => sockets.close())
  app.addHook('onClose', () => sessions.close())
  return { refuse, upgrade: sockets.take }
}
