import type { Front, FrontPlace } from '../front.ts'
import { Routes } from './call.ts'
import { controlRoutes } from './control.ts'
import { previewRoutes } from './previews.ts'
import { refuse } from './refuse.ts'
import { snapshotRoutes } from './snapshots.ts'
import { takeUpgrades, type Upgrades } from './sockets.ts'
import { bulkRoutes } from './toolbox/bulk.ts'
import { fileRoutes } from './toolbox/files.ts'
import { gitRoutes } from './toolbox/git.ts'
import { processRoutes } from './toolbox/process.ts'
import { Ptys } from './toolbox/pty.ts'
import { searchRoutes } from './toolbox/search.ts'
import { ToolboxSessions } from './toolbox/sessions.ts'
import { systemRoutes } from './toolbox/system.ts'

/**
 * Daytona's wire, for its SDK as it is (`@daytona/sdk`, `@daytonaio/sdk`): `apiUrl` is this listener's address and `/api`, the key one of
 * ours. The control plane is below `/api`, the toolbox of each sandbox below `/toolbox/<id>`.
 */
export function daytonaFront(): Front {
  const upgrades = new WeakMap<FrontPlace, Upgrades>()
  return {
    name: 'daytona',
    register(app, place) {
      const routes = new Routes(app, place)
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
      const sockets = takeUpgrades({ place, sessions, ptys })
      upgrades.set(place, sockets)
      // Before the listener waits for its connections to end: those that were upgraded would not.
      app.addHook('preClose', () => sockets.close())
      app.addHook('onClose', () => sessions.close())
    },
    refuse,
    upgrade: (request, socket, head, place) => upgrades.get(place)!.take(request, socket, head),
  }
}
