import type { Report } from '../../report.ts'
import type { Ours } from '../subjects/ours.ts'
import type { SpawnSubject } from '../subjects/spawn.ts'
import type { Subject } from '../subjects/subject.ts'
import type { Workplace } from '../workplace.ts'

/** The context of a stage. A subject that could not be opened is missing, and the stage skips it. */
export interface Bench {
  readonly place: Workplace
  readonly report: Report
  readonly quick: boolean
  readonly bare: SpawnSubject
  readonly ours?: Ours
  readonly crun?: Subject
  readonly docker?: Subject & { openFiles(): Promise<Files>; openCommit(bytes: number): Promise<Commits> }
  readonly oursOnDocker?: Subject
  readonly oursInGvisor?: Subject
  wants(id: string): boolean
}

/** A container with a changed disk, to be committed repeatedly. */
export interface Commits {
  commit(): Promise<number>
  close(): Promise<unknown>
}

export interface Files {
  write(path: string, chunks: AsyncIterable<Uint8Array>, bytes: number): Promise<void>
  read(path: string): Promise<AsyncIterable<Uint8Array>>
  close(): Promise<unknown>
}

/** A part of the comparison: a heading in the table, and the ids that it may print. */
export interface Stage {
  readonly title: string
  readonly ids: readonly string[]
  run(bench: Bench): Promise<void>
}
