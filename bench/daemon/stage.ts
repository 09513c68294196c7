import type { Ours } from '../engine/subjects/ours.ts'
import type { SpawnSubject } from '../engine/subjects/spawn.ts'
import type { Subject } from '../engine/subjects/subject.ts'
import type { Workplace } from '../engine/workplace.ts'
import type { Report } from '../report.ts'
import type { Server } from './server.ts'

/** The context of a stage. A subject that could not be opened is missing, and the stage skips it. */
export interface Bench {
  readonly place: Workplace
  readonly report: Report
  readonly quick: boolean
  readonly server: Server
  readonly bare: SpawnSubject
  readonly ours?: Ours
  readonly docker?: Subject
  wants(id: string): boolean
}

export interface Stage {
  readonly title: string
  readonly ids: readonly string[]
  run(bench: Bench): Promise<void>
}
