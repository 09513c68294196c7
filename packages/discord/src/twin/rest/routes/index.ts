import type { Route } from '../route.ts'
import { applicationRoutes } from './applications.ts'
import { channelRoutes } from './channels.ts'
import { guildRoutes } from './guilds.ts'
import { interactionRoutes } from './interactions.ts'
import { messageRoutes } from './messages.ts'
import { threadRoutes } from './threads.ts'

/** All routes of the twin. A route with a fixed segment stands before one with a parameter in its place. */
export const routes: readonly Route[] = [
  ...applicationRoutes,
  ...guildRoutes,
  ...channelRoutes,
  ...threadRoutes,
  ...messageRoutes,
  ...interactionRoutes,
]
