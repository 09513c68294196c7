import type { Registry, ScopedRegistry } from '@sandkasten/registry'
import type { Network } from '@sandkasten/sdk'
import type { ThreadLimits } from './limits.ts'
import type { AgentOpener } from './spec/agents.ts'
import type { Chat } from './spec/chat.ts'
import type { SandboxOptions } from './spec/threads.ts'
import type { Spool } from './spool.ts'
import type { Store, ThreadRow } from './store/index.ts'

/** What the rooms of the engine share. */
export interface Context {
  readonly appId: string
  /** The app that sandboxes belong to in the registry. */
  readonly sandboxAppId: string
  readonly store: Store
  readonly registry: Registry
  readonly chat: Chat
  readonly agents: AgentOpener
  readonly spool: Spool
  /** Of new sandboxes, unless the thread has its own. */
  readonly sandboxDefaults: SandboxOptions
  readonly agentNetwork: Network | undefined
  readonly limits: ThreadLimits
  /** The users of the chat are on this machine, so links to its loopback work for them. */
  readonly allowsLocalLinks: boolean
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** The first wait before a failed call of the chat or the database is repeated. */
  readonly retryMs: number
}

/** The sandboxes that a thread may use. */
export function sandboxesOf(
  { registry, sandboxAppId: appId }: Pick<Context, 'registry' | 'sandboxAppId'>,
  { guild_id, channel_id }: Pick<ThreadRow, 'guild_id' | 'channel_id'>,
): ScopedRegistry {
  return registry.in({ appId, guildId: guild_id, channelId: channel_id })
}
