import type { Front } from '../front.ts'
import { commandRoutes } from './commands.ts'
import { VercelDesk } from './desk.ts'
import { fileRoutes } from './files.ts'
import { refusal } from './refusal.ts'
import { sandboxRoutes } from './sandboxes.ts'
import { sessionRoutes } from './sessions.ts'
import { removeExpired, snapshotRoutes } from './snapshots.ts'

/** How often snapshots whose time is over are looked for. */
const sweepMs = 60_000

/**
 * The wire of `@vercel/sandbox` 2.x and 3.x. A sandbox there is a name with a disk; a session is one run of it:
 *
 *     sandbox „my-app“     our session, by its name
 *     session sbx_<id>_3   the third start of it; every other one is 410, and the SDK then asks for the one that is
 *     command cmd_<id>     a command of ours that carries this id
 *
 * The SDK repeats any request that was answered with 5xx, so what would fail again, or has been begun, is never that.
 */
export const vercelFront: Front = {
  name: 'vercel',
  register(app, place) {
    const desk = new VercelDesk(app, place)
    for (const route of [
      ...sandboxRoutes(desk),
      ...sessionRoutes(desk),
      ...commandRoutes(desk),
      ...fileRoutes(desk),
      ...snapshotRoutes(desk),
    ])
      desk.add(route)
    const sweep = () =>
      void removeExpired(desk).catch((error) =>
        place.services.log.warn({ err: error }, 'expired snapshots are not removed yet'),
      )
    sweep()
    const timer = setInterval(sweep, sweepMs).unref()
    app.addHook('onClose', async () => clearInterval(timer))
  },
  refuse: refusal,
}
