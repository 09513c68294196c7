import type { EventEmitter } from 'node:events'
import type { Clock } from './clock.ts'
import type { RecordedCounters } from './counters.ts'
import type { TwinLimits } from './limits.ts'
import type { World } from './state/world.ts'

/** What all parts of the twin share. */
export interface Core {
  readonly world: World
  readonly clock: Clock
  readonly limits: TwinLimits
  readonly counters: RecordedCounters
  readonly newId: () => string
  /** Emits `change` after each change of the world, with the channel if only that one changed. */
  readonly changes: EventEmitter<{ change: [channelId?: string] }>
  /** Sends an event to the gateway sessions that may see it. */
  publish(event: TwinEvent): void
  /** `http://127.0.0.1:PORT` */
  readonly origin: string
}

/** One event of the gateway, before the twin has decided which sessions receive it. */
export interface TwinEvent {
  readonly name: string
  readonly guildId: string
  /** The intent that a session needs; 0 if it needs none. */
  readonly intent: number
  /** The recipients need VIEW_CHANNEL for this channel. */
  readonly channelId?: string
  /** Only this bot receives the event. */
  readonly botId?: string
  /** The payload, which may differ between recipients. `undefined` leaves the recipient out. */
  readonly data: (viewer: Viewer) => object | undefined
}

export interface Viewer {
  readonly botId: string
  readonly intents: number
}

export const Intent = {
  guilds: 1 << 0,
  guildMembers: 1 << 1,
  guildPresences: 1 << 8,
  guildMessages: 1 << 9,
  guildMessageReactions: 1 << 10,
  guildMessageTyping: 1 << 11,
  messageContent: 1 << 15,
} as const

export const PRIVILEGED_INTENTS = Intent.guildMembers | Intent.guildPresences | Intent.messageContent
