import type { DaemonConfig } from '../config/index.ts'
import type { KeyRing } from '../keys/index.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Connections, PortService, Visits } from '../ports/index.ts'
import type { EventBus, SessionService } from '../sessions/index.ts'
import type { Audit } from './audit.ts'
import type { Streams } from './event-streams.ts'

/** How long one who sends slowly is waited for. */
export interface Patience {
  /** The head of a request. */
  readonly headMs: number
  /** A body of JSON, and the next piece of one that is passed on. */
  readonly bodyMs: number
}

/** What the routes work with. */
export interface Services {
  readonly config: DaemonConfig
  readonly sessions: SessionService
  readonly ports: PortService
  /** How visitors of ports are led to the sandbox, and those who are there. */
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
  /** Throws what is wrong, if the daemon cannot work now. */
  ready(): Promise<void>
}
