import type { Services } from '../http/services.ts'
import type { Route } from './route.ts'
import { commandRoutes } from './routes/commands.ts'
import { egressRoutes } from './routes/egress.ts'
import { fileRoutes } from './routes/files.ts'
import { keyRoutes } from './routes/keys.ts'
import { policyRoutes } from './routes/policies.ts'
import { portRoutes } from './routes/ports.ts'
import { recordRoutes } from './routes/records.ts'
import { secretRoutes } from './routes/secrets.ts'
import { sessionRoutes } from './routes/sessions.ts'
import { shellRoutes } from './routes/shells.ts'
import { snapshotRoutes } from './routes/snapshots.ts'
import { systemRoutes } from './routes/system.ts'
import { terminalRoutes } from './routes/terminals.ts'
import { volumeRoutes } from './routes/volumes.ts'

export { openapi } from './openapi.ts'
export { buildServer } from './server.ts'
export { terminalSocket } from './terminal-socket.ts'
export { handleUpgrades, type SocketRoute } from './upgrades.ts'

export function allRoutes(services: Services): Route[] {
  const routes: Route[] = [
    ...sessionRoutes(services),
    ...commandRoutes(services),
    ...shellRoutes(services),
    ...terminalRoutes(services),
    ...fileRoutes(services),
    ...egressRoutes(services),
    ...snapshotRoutes(services),
    ...volumeRoutes(services),
    ...secretRoutes(services),
    ...portRoutes(services),
    ...keyRoutes(services),
    ...policyRoutes(services),
    ...recordRoutes(services),
    ...systemRoutes(services, () => routes),
  ]
  return routes
}
