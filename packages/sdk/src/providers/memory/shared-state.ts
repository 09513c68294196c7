import type { Clock } from '../../shared/calls/clock.ts'
import { randomId } from '../../shared/ids.ts'
import type { SandboxEndpoint, SnapshotInfo } from '../../spec/index.ts'
import { Faults } from './faults.ts'
import { Commands, type RecordedCall } from './machine/commands.ts'
import type { VfsDirectory } from './machine/virtual-files.ts'
import type { MemoryProcess } from './process.ts'
import type { MemorySandbox } from './sandbox.ts'
import type { ShellHandler } from './shell.ts'

export class SharedState {
  readonly clock: Clock
  readonly commands = new Commands()
  readonly faults: Faults
  readonly calls: RecordedCall[] = []
  readonly sandboxes = new Map<string, MemorySandbox>()
  readonly snapshots = new Map<string, { info: SnapshotInfo; root: VfsDirectory }>()
  readonly shell: ShellHandler | undefined
  readonly endpoint: (sandboxId: string, port: number) => SandboxEndpoint
  readonly snapshotInterrupts: boolean
  readonly #seed: string | undefined
  readonly #processes = new Set<MemoryProcess>()
  readonly #counts = new Map<string, number>()

  constructor(options: {
    clock: Clock
    seed?: string
    shell?: ShellHandler
    endpoint?: (sandboxId: string, port: number) => SandboxEndpoint
    snapshotInterrupts?: boolean
  }) {
    this.clock = options.clock
    this.faults = new Faults(options.clock)
    this.shell = options.shell
    this.snapshotInterrupts = options.snapshotInterrupts ?? false
    this.#seed = options.seed
    this.endpoint =
      options.endpoint ??
      ((sandboxId, port) => ({ url: `http://${sandboxId}-${port}.memory.invalid`, headers: {} }))
  }

  /** `mem-1`, `mem-2`, … with a seed; random otherwise. */
  id(kind: 'sandbox' | 'process' | 'snapshot' | 'shell'): string {
    if (this.#seed === undefined) return randomId()
    const count = this.count(kind)
    return `${kind === 'sandbox' ? this.#seed : `${this.#seed}-${kind}`}-${count}`
  }

  started(process: MemoryProcess): void {
    this.#processes.add(process)
    // Keep a program whose children still run, so that `running` reports them.
    void process.program.ended.then(() => {
      if (!process.program.alive) this.#processes.delete(process)
    })
  }

  /** The programs of a sandbox that still run, even if the sandbox is gone. */
  running(sandboxId: string): string[] {
    for (const process of this.#processes) if (!process.program.alive) this.#processes.delete(process)
    return [...this.#processes]
      .filter((process) => process.sandboxId === sandboxId)
      .map((process) => process.info().cmd ?? '?')
  }

  count(kind: string): number {
    const count = (this.#counts.get(kind) ?? 0) + 1
    this.#counts.set(kind, count)
    return count
  }
}
