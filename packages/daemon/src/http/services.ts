import type { DaemonConfig } from '../config/index.ts'
import type { KeyRing } from '../keys/index.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Connections, PortService, Visits } from '../ports/index.ts'
import type { ProjectSecrets } from '../secrets/index.ts'
import type { EventBus, SessionService } from '../sessions/index.ts'
import type { Audit } from './audit.ts'
import type { Streams } from './event-streams.ts'

/** Timeouts for slow senders. */
export interface Patience {
  /** The head of a request. */
  readonly headMs: number
  /** A JSON body, and the next chunk of a streamed one. */
  readonly bodyMs: number
}

/** The parts of the daemon that routes work with. */
export interface Services {
  readonly config: DaemonConfig
  readonly sessions: SessionService
  readonly secrets: ProjectSecrets
  readonly ports: PortService
  /** Admits visitors to ports. */
  readonly visits: Visits
  readonly connections: Connections
  readonly keys: KeyRing
  readonly events: EventBus
  readonly audit: Audit
  readonly streams: Streams
  readonly metrics: Metrics
  readonly log: Log
  readonly version: string
  readonly patience: Patience
  /** Throws if the daemon is not ready. */
  ready(): Promise<void>
}
