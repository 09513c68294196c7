import type { Route } from './route.ts'
import { commandRoutes } from './routes/commands.ts'
import { fileRoutes } from './routes/files.ts'
import { sessionRoutes } from './routes/sessions.ts'
import { systemRoutes } from './routes/system.ts'
import type { Services } from './services.ts'

export { Audit } from './audit.ts'
export { openapi } from './openapi.ts'
export { buildServer } from './server.ts'
export type { Services } from './services.ts'
export { Streams } from './streams.ts'

/** Every route there is. */
export function allRoutes(services: Services): Route[] {
  const routes: Route[] = [
    ...sessionRoutes(services),
    ...commandRoutes(services),
    ...fileRoutes(services),
    ...systemRoutes(services, () => routes),
  ]
  return routes
}
