import type { AgentMode } from './agent.ts'

export type Action = 'use' | 'create' | 'destroy' | 'setup'

/** Members with any of the roles, and the users, may do one thing. */
export interface Allowed {
  readonly roles: readonly string[]
  readonly users: readonly string[]
}

/** What was set for a group of people (a guild), and for one of its channels. */
export interface Settings {
  readonly allowed: Readonly<Partial<Record<Action, Allowed>>>
  readonly provider?: string
  readonly model?: string
  readonly mode?: AgentMode
  /** Threads of one user that are neither archived nor ended. */
  readonly threadsPerUser?: number
  /** Live sandboxes. */
  readonly sandboxes?: number
}

export interface Member {
  readonly id: string
  readonly roles: readonly string[]
  readonly canManageGuild: boolean
}

export interface SettingsPlace {
  readonly guildId?: string
  /** Settings of a channel come before those of its guild. */
  readonly channelId?: string
}
