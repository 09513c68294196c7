import type { FrontFactory } from '../front.ts'
import { Entry } from './entry.ts'
import { fileRoutes } from './files.ts'
import { processRoutes } from './processes.ts'
import { refuse } from './refusal.ts'
import { sandboxRoutes } from './sandboxes.ts'
import { sessionRoutes } from './sessions.ts'
import { removeExpired, snapshotRoutes } from './snapshots.ts'

const sweepMs = 60_000

/**
 * The API of `@vercel/sandbox` 2.x and 3.x. A sandbox is a name with a disk, and a session is one run of it:
 *
 *     sandbox "my-app"     our session, by its name
 *     session sbx_<id>_3   its third start; any other one is 410, and the SDK then asks for the current one
 *     command cmd_<id>     a command with this id
 *
 * The SDK repeats any request that gets a 5xx. So permanent failures, and work that has begun, never get one.
 */
export const vercelFront: FrontFactory = (app, place) => {
  const entry = new Entry(app, place)
  for (const route of [
    ...sandboxRoutes(entry),
    ...sessionRoutes(entry),
    ...processRoutes(entry),
    ...fileRoutes(entry),
    ...snapshotRoutes(entry),
  ])
    entry.add(route)
  const sweep = () =>
    void removeExpired(entry).catch((error) =>
      place.services.log.warn({ err: error }, 'cannot remove expired snapshots; the next sweep tries again'),
    )
  sweep()
  const timer = setInterval(sweep, sweepMs).unref()
  app.addHook('onClose', async () => clearInterval(timer))
  return { refuse }
}
