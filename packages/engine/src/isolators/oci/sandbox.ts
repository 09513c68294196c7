import { rmSync } from 'node:fs'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { IsolatedSandbox, SandboxEnd, SandboxStats } from '../isolator.ts'
import { FrugalSocket } from './frugal-socket.ts'
import { readEnd, type Witness } from './launch/shim.ts'
import type { SandboxGroups } from './limits/cgroups.ts'
import { lifeOf, type Places } from './places.ts'

/** How long a shim may take to end its sandbox before it counts as stuck. */
const KILL_TIMEOUT_MS = 10_000

interface SandboxParts {
  readonly places: Places
  readonly groups: SandboxGroups
  readonly witness: Witness
  readonly upper: string
  readonly onKill: () => void
}

/** A running sandbox, as one process holds it. Any number of processes may hold the same. */
export class OciSandbox implements IsolatedSandbox {
  readonly sandboxId: string
  readonly folder: string
  readonly ended: Promise<SandboxEnd>
  readonly upper: string
  private readonly places: Places
  private readonly groups: SandboxGroups
  private readonly witness: Witness
  private readonly onKill: () => void
  private readonly life: string | undefined

  constructor(sandboxId: string, parts: SandboxParts) {
    this.sandboxId = sandboxId
    this.upper = parts.upper
    this.places = parts.places
    this.folder = this.places.folder
    this.groups = parts.groups
    this.witness = parts.witness
    this.onKill = parts.onKill
    this.life = lifeOf(this.places)
    this.ended = this.witness.told.then((end) => this.settle(end))
  }

  async connect(): Promise<Duplex> {
    return new Promise<Duplex>((resolve, reject) => {
      const socket = new FrugalSocket().connect(this.places.socket)
      socket.once('connect', () => resolve(socket))
      socket.once('error', (cause) => reject(this.gone(cause)))
    })
  }

  async oomKills(): Promise<number | undefined> {
    return this.groups.oomKills()
  }

  async stats(): Promise<SandboxStats> {
    return this.groups.stats()
  }

  freeze(): Promise<void> {
    return this.freezer(true)
  }

  thaw(): Promise<void> {
    return this.freezer(false)
  }

  async hold(): Promise<() => void> {
    await this.witness.hold()
    return () => this.witness.release()
  }

  async kill(): Promise<SandboxEnd> {
    this.witness.kill()
    this.onKill()
    const stuck = new AbortController()
    const timer = sleep(KILL_TIMEOUT_MS, undefined, { signal: stuck.signal }).then(
      () => this.witness.killShim(),
      () => {},
    )
    const end = await this.ended
    stuck.abort()
    await timer
    return end
  }

  private async freezer(frozen: boolean): Promise<void> {
    try {
      if (this.groups.canFreeze()) await this.groups.freeze(frozen)
      else await this.witness.freeze(frozen)
    } catch (cause) {
      throw SandboxError.is(cause) ? cause : this.gone(cause)
    }
  }

  private gone(cause: unknown): SandboxError {
    return new SandboxError('not_running', `sandbox ${this.sandboxId} cannot be reached`, {
      sandboxId: this.sandboxId,
      cause,
    })
  }

  /**
   * The shim has ended, and with it all processes of its pid namespace. It may have written an exit report that it could
   * not send. A killed shim leaves its groups and its folder. The folder is removed only if no later incarnation uses
   * it.
   */
  private async settle(told: SandboxEnd | undefined): Promise<SandboxEnd> {
    if (told) return told
    await this.groups.clear().catch(() => {})
    if (this.life !== undefined && lifeOf(this.places) === this.life)
      rmSync(this.places.run, { recursive: true, force: true })
    return readEnd(this.places) ?? { killed: false, unwitnessed: true, errors: '' }
  }
}
