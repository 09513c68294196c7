import type { CreateSpec } from '../../core/driver.ts'
import type { NormalNetwork } from '../../core/network/normal.ts'
import { SandboxError } from '../../errors.ts'
import type { SandboxInfo, SandboxStatus } from '../../spec/index.ts'
import { MemoryFiles } from './files.ts'
import { directory, Vfs, type VfsDirectory } from './machine/virtual-files.ts'
import type { MemoryProcess } from './process.ts'
import type { SharedState } from './shared-state.ts'
import type { MemoryShell } from './shell.ts'

export const workdir = '/workspace'

export type SandboxRecipe = Pick<
  CreateSpec,
  'name' | 'label' | 'labels' | 'envVars' | 'lifetimeMs' | 'runtime' | 'ports' | 'network'
>

/** The state of one sandbox: its disk, programs and clock. A handle is a `SandboxBinding` to it. */
export class MemorySandbox {
  readonly id: string
  readonly sharedState: SharedState
  readonly recipe: SandboxRecipe
  readonly createdAtMs: number
  readonly vfs: Vfs
  /** For programs: without checks and faults. */
  readonly files: MemoryFiles
  readonly processes = new Map<string, MemoryProcess>()
  readonly shells = new Map<string, MemoryShell>()
  /** Increases with every start. A handle with another number is stale. */
  incarnation = 1
  status: SandboxStatus
  /** Only kept: programs are functions of this process, and nothing restricts them. */
  network: NormalNetwork | undefined
  expiresAtMs: number | undefined
  readonly #waiting = new Set<() => void>()
  #cancelExpiry = () => {}

  constructor(
    sharedState: SharedState,
    id: string,
    recipe: SandboxRecipe,
    options: { root?: VfsDirectory; creating: boolean },
  ) {
    this.sharedState = sharedState
    this.id = id
    this.recipe = recipe
    this.network = recipe.network
    this.createdAtMs = sharedState.clock.now()
    this.status = options.creating ? 'creating' : 'running'
    this.vfs = new Vfs(
      workdir,
      () => sharedState.clock.now(),
      options.root ?? emptyDisk(sharedState.clock.now()),
    )
    this.files = new MemoryFiles({ vfs: this.vfs, enter: async () => ({ through: (items) => items }) })
    this.#liveFor(recipe.lifetimeMs)
  }

  info(): SandboxInfo {
    const { name, label, labels } = this.recipe
    return {
      id: `memory:${this.id}`,
      sandboxId: this.id,
      status: this.status,
      name,
      label,
      labels: { ...labels },
      createdAt: new Date(this.createdAtMs),
      expiresAt: this.expiresAtMs === undefined ? undefined : new Date(this.expiresAtMs),
    }
  }

  /** Resolves when the creator has finished or destroyed the sandbox. */
  async ready(): Promise<void> {
    while (this.status === 'creating') await this.change()
  }

  stop(): void {
    this.#cancelExpiry()
    this.expiresAtMs = undefined
    this.#endPrograms()
    this.#become('stopped')
  }

  start(): void {
    this.incarnation += 1
    this.processes.clear()
    this.#become('running')
    this.#liveFor(this.recipe.lifetimeMs)
  }

  pause(): void {
    this.#become('paused')
  }

  resume(): void {
    this.#become('running')
  }

  open(): void {
    if (this.status === 'creating') this.#become('running')
  }

  destroy(): void {
    this.#cancelExpiry()
    this.#endPrograms()
    this.#become('destroyed')
    this.sharedState.sandboxes.delete(this.id)
  }

  /** Never shortens. A sandbox without a lifetime keeps none. */
  extend(ms: number): void {
    if (this.expiresAtMs === undefined) return
    const until = this.sharedState.clock.now() + ms
    if (until > this.expiresAtMs) this.#liveFor(ms)
  }

  change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve))
  }

  changed(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }

  error(code: 'not_found' | 'not_running' | 'interrupted', message: string, hint?: string): SandboxError {
    return new SandboxError(code, message, {
      provider: 'memory',
      sandboxId: this.id,
      hint,
    })
  }

  #liveFor(ms: number | undefined): void {
    this.#cancelExpiry()
    if (ms === undefined) return
    this.expiresAtMs = this.sharedState.clock.now() + ms
    this.#cancelExpiry = this.sharedState.clock.after(ms, () => this.stop())
  }

  #endPrograms(): void {
    for (const process of this.processes.values()) process.program.deliver('SIGKILL')
    for (const shell of this.shells.values()) shell.end()
    this.shells.clear()
  }

  #become(status: SandboxStatus): void {
    this.status = status
    this.changed()
  }
}

function emptyDisk(now: number): VfsDirectory {
  const root = directory(now, 0o755)
  root.entries.set(workdir.slice(1), directory(now, 0o755))
  root.entries.set('tmp', directory(now, 0o777))
  return root
}
