import type { Duplex } from 'node:stream'
import type { SandboxHandle, SandboxInfo, SandboxProvider, VolumeAdmin } from '@sandkasten/sdk'
import type { DaemonConfig } from '../config/index.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { ProjectSecrets } from '../secrets/index.ts'
import type { SessionRow, Store } from '../store/index.ts'
import type { ResultMemory } from './commands/result-memory.ts'
import type { EventBus } from './events.ts'
import type { EndTimer } from './leases/end-timer.ts'
import type { LiveSessions } from './live-sessions.ts'
import type { Pool } from './pool.ts'

/** The dependencies that the modules of this folder share. */
export interface Context {
  readonly config: DaemonConfig
  readonly store: Store
  readonly provider: DaemonProvider
  readonly secrets: ProjectSecrets
  /** This daemon's identity, kept in its data folder. Its sandboxes carry it as a label. */
  readonly instanceId: string
  readonly live: LiveSessions
  readonly events: EventBus
  /** Wakes the reaper when the next session is due. */
  readonly ends: EndTimer
  readonly metrics: Metrics
  readonly log: Log
  readonly pool: Pool
  /** Limits the memory of results in flight. */
  readonly memory: ResultMemory
}

/** Any provider of the SDK, with optional methods that the daemon uses if they exist. */
export type DaemonProvider = SandboxProvider & {
  close?(): Promise<void> | void
  stats?(sandboxId: string): Promise<object>
  /** Opens a byte stream to a port of a sandbox. Without it the daemon connects to the port's endpoint. */
  dial?: ((sandboxId: string, port: number) => Promise<Duplex>) | undefined
  /** Calls the listener when a sandbox that this process started, or watches, ends by itself. */
  onEnded?(listener: (info: SandboxInfo) => void): void
  watch?(sandboxId: string): Promise<void>
  /** Gives a pooled sandbox the labels, the environment and the age of a new one. */
  handOver?(
    sandboxId: string,
    to: { labels: Readonly<Record<string, string>>; envVars: Readonly<Record<string, string>> },
  ): Promise<void>
  /** The image that has this runtime, among the given ones. Throws `unsupported` with those that exist. */
  imageForRuntime?(runtime: string, among: readonly string[]): Promise<string>
  /** Folders that outlive sandboxes. Its methods throw `unsupported` where this machine has none. */
  readonly volumes?: VolumeAdmin
  /** The decisions about a sandbox with a network policy, oldest first. With `follow`, until the signal aborts. */
  egressEvents?(
    sandboxId: string,
    options: { after?: number; follow?: boolean; signal?: AbortSignal },
  ): AsyncIterable<{
    readonly seq: number
    readonly at: number
    readonly kind: 'tcp' | 'tls' | 'http' | 'dns' | 'udp' | 'icmp' | 'other'
    readonly host: string | null
    readonly address: string | null
    readonly port: number | null
    readonly verdict: 'allowed' | 'denied' | 'audit' | 'error'
    readonly rule: string | null
    readonly reason: string | null
    readonly bytesIn: number
    readonly bytesOut: number
    readonly durationMs: number
    readonly method: string | null
    readonly path: string | null
    readonly status: number | null
  }>
  egressStats?(sandboxId: string): Promise<{ readonly connections: number }>
  /** Asks for the values of all secrets again. */
  refreshSecrets?(): Promise<void>
  /** Cleans up after processes that were killed. */
  sweep?(): Promise<unknown>
}

export type Sandbox = SandboxHandle
export type Session = SessionRow

/** Labels that mark a sandbox as ours. */
export const sessionLabel = 'sandkasten.session'
export const instanceLabel = 'sandkasten.instance'
