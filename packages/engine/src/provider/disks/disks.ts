import type { CallOptions, SandboxError, SnapshotInfo } from '@sandkasten/sdk'
import type { SandboxRecord } from '@sandkasten/sdk/internal'
import type { CreateSpec, SandboxDriver } from '@sandkasten/sdk/provider'
import type { IsolatedSandbox, Isolator, IsolatorSpec } from '../../isolators/isolator.ts'
import type { Volumes } from '../../volumes/volumes.ts'
import type { ReadOnlyFiles } from '../read-only-files.ts'
import type { EngineExtra } from '../spec.ts'

/**
 * How the sandboxes of one root keep their disks: as layers of this machine (`LayerDisks`) or in a Docker daemon
 * (`DockerDisks`). The engine's driver holds one and calls it at each step of a sandbox's life.
 */
export interface Disks {
  /** Absent where this kind of disk has no volumes. */
  readonly volumes?: Volumes
  /** Absent where sandboxes cannot see files of this machine. */
  readonly readOnlyFiles?: ReadOnlyFiles
  create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver>
  /** Returns the isolator's spec for the start of the sandbox. Throws if a layer is missing. */
  specOf(folder: string, record: SandboxRecord): IsolatorSpec
  /** Runs before a start. Rejects if the disk is incomplete or if another sandbox writes to one of its volumes. */
  claim?(record: SandboxRecord): Promise<void>
  /** Runs after a stop: undoes `claim`. */
  unclaim?(record: SandboxRecord): Promise<void>
  /** Completes a change of the disk that an interrupted process left in the record. The caller holds the lock. */
  repair?(folder: string, record: SandboxRecord): Promise<SandboxRecord>
  /** Runs after a sandbox and its record are gone. */
  removed(record: SandboxRecord): Promise<void>
  snapshot(binding: Binding, name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }>
  /** Starts `count` copies, all of the same state of the disk. */
  fork(binding: Binding, count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>>
  listSnapshots(): Promise<SnapshotInfo[]>
  deleteSnapshot(snapshotId: string): Promise<boolean>
  /** Cleans up after killed processes. Safe while other processes use the same root. */
  sweep(): Promise<void>
  /** Resolves when no work runs in the background. */
  idle?(): Promise<void>
  close?(): Promise<void>
}

/** The part of the driver that disks may use. */
export interface Sandboxes {
  /** The real path, known once the driver has been used. */
  readonly root: string
  isolator(): Promise<Isolator>
  /** The running sandbox. Rejects with `not_running`. */
  isolatedOf(record: SandboxRecord): Promise<IsolatedSandbox>
  folderOf(sandboxId: string): string
  records(): Promise<SandboxRecord[]>
  current(sandboxId: string): Promise<SandboxRecord>
  check(sandboxId: string, incarnation: string): Promise<SandboxRecord>
  /** Changes a record while holding the sandbox's lock. */
  change(
    sandboxId: string,
    change: (record: SandboxRecord) => SandboxRecord | Promise<SandboxRecord>,
  ): Promise<SandboxRecord>
  make(spec: CreateSpec, extra: EngineExtra, call: CallOptions): Promise<SandboxDriver>
  interrupted(sandboxId: string): SandboxError
}

/** The sandbox, and the incarnation of it, that a handle is bound to. */
export interface Binding {
  readonly sandboxId: string
  readonly incarnation: string
}

/** The options for a fork: those of the sandbox that it copies. */
export function forkSpecOf({ labels, envVars, label, lifetimeMs, ports }: SandboxRecord): CreateSpec {
  return { labels, envVars, label, lifetimeMs, ports, deferReady: false }
}

/** Waits for all creates; a failed one becomes its error. */
export async function settled(creates: Array<Promise<SandboxDriver>>): Promise<Array<SandboxDriver | Error>> {
  const results = await Promise.allSettled(creates)
  return results.map((result) => (result.status === 'fulfilled' ? result.value : (result.reason as Error)))
}
