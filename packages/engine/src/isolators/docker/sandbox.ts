import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { Container, ContainerInspectInfo } from 'dockerode'
import type { IsolatedSandbox, SandboxEnd, SandboxPlace, SandboxStats } from '../isolator.ts'
import type { SandboxGroups } from '../oci/limits/cgroups.ts'
import { inspect, killContainer, lives } from './daemon/containers.ts'
import { statusOf, translate } from './daemon/errors.ts'
import type { EndWatch } from './launch/end-watch.ts'
import { forgetHolds, holdsOf, noteHold } from './launch/hold-notes.ts'
import { endOf, noteKill } from './launch/last-end.ts'
import type { RunnerConnection } from './launch/runner-connection.ts'
import { statsFrom } from './limits/stats.ts'

/** A running sandbox, as one process holds it. Any number of processes may hold the same. */
export class DockerSandbox implements IsolatedSandbox {
  readonly sandboxId: string
  readonly folder: string
  readonly ended: Promise<SandboxEnd>
  private readonly container: Container
  private readonly connection: RunnerConnection
  private readonly where: string
  private readonly kind: 'docker' | 'podman'
  private readonly startedAt: string
  private readonly groups: SandboxGroups | undefined
  private readonly end = Promise.withResolvers<SandboxEnd>()
  private readonly unwatch: () => void
  private over = false

  constructor(options: {
    place: SandboxPlace
    container: Container
    info: ContainerInspectInfo
    connection: RunnerConnection
    where: string
    kind: 'docker' | 'podman'
    groups: SandboxGroups | undefined
    watch: EndWatch
  }) {
    this.sandboxId = options.place.sandboxId
    this.folder = options.place.folder
    this.container = options.container
    this.connection = options.connection
    this.where = options.where
    this.kind = options.kind
    this.startedAt = options.info.State.StartedAt
    this.groups = options.groups
    this.ended = this.end.promise
    this.unwatch = options.watch.listen(options.container.id, (told) => void this.look(told))
    void this.look(false)
  }

  async connect(): Promise<Duplex> {
    try {
      return await this.connection.connect()
    } catch (cause) {
      throw new SandboxError('not_running', `sandbox ${this.sandboxId} cannot be reached`, {
        sandboxId: this.sandboxId,
        cause,
      })
    }
  }

  async oomKills(): Promise<number | undefined> {
    return this.groups?.oomKills()
  }

  async stats(): Promise<SandboxStats> {
    if (this.groups) return this.groups.stats()
    const stats = await this.call('Reading the resource usage', () =>
      this.container.stats({ stream: false, 'one-shot': true } as { stream: false }),
    )
    return statsFrom(stats)
  }

  async freeze(): Promise<void> {
    await this.call('Freezing it', () => this.turn(() => this.container.pause(), true))
    // A process that holds it must not thaw it now.
    forgetHolds(this)
  }

  async thaw(): Promise<void> {
    await this.call('Thawing it', () => this.turn(() => this.container.unpause(), false))
  }

  /** If its holder was killed, it stays paused until the next `attach`: the daemon does not know the holder. */
  async hold(): Promise<() => void> {
    const info = await this.call('Inspecting the container', () => inspect(this.container))
    if (info?.State.Paused && (await holdsOf(this)) === 'none') return () => {}
    const note = await noteHold(this)
    const letGo = async () => {
      if (note.remove() && (await holdsOf(this)) !== 'held') await this.thaw()
    }
    try {
      await this.call('Holding it', () => this.turn(() => this.container.pause(), true))
    } catch (error) {
      note.remove()
      throw error
    }
    // A sandbox that has ended needs no thaw.
    return () => void letGo().catch(() => {})
  }

  async kill(): Promise<SandboxEnd> {
    const oomKills = this.groups?.oomKills()
    noteKill(this, { startedAt: this.startedAt, oomKills })
    const killed = this.call('Ending it', () => killContainer(this.container))
    // Wait for the daemon's answer or its event. Podman answers a quarter of a second after the end.
    await Promise.race([killed.then((info) => this.settle(this.endIn(info))), this.ended])
    return this.ended
  }

  /** Checks whether the container has ended, at the beginning and after each event of the daemon. */
  private async look(told: boolean): Promise<void> {
    for (let tries = 0; !this.over && tries < (told ? 5 : 1); tries += 1) {
      // An unreachable daemon sends no events; the watch calls again when it is back.
      const info = await inspect(this.container).catch(() => 'unknown' as const)
      if (info === 'unknown') return
      if (!info || !lives(info) || info.State.StartedAt !== this.startedAt)
        return this.settle(this.endIn(info))
      // Some daemons send the event shortly before they update the state.
      await sleep(50 * tries, undefined, { ref: false })
    }
  }

  /** How this incarnation ended. If the container was removed or started again, that is no longer known. */
  private endIn(info: ContainerInspectInfo | undefined): SandboxEnd {
    const end = info?.State.StartedAt === this.startedAt ? endOf(info, this, this.kind) : undefined
    return end ?? { killed: false, unwitnessed: true, errors: '' }
  }

  /** Ignores the error if the container is already in that state. */
  private async turn(work: () => Promise<unknown>, frozen: boolean): Promise<void> {
    try {
      await work()
    } catch (cause) {
      const info = await inspect(this.container)
      if (!info || !lives(info) || info.State.Paused !== frozen) throw cause
    }
  }

  private settle(end: SandboxEnd): void {
    this.over = true
    this.unwatch()
    this.end.resolve(end)
  }

  private async call<T>(doing: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (cause) {
      if (statusOf(cause) === 404 || statusOf(cause) === 409)
        throw new SandboxError('not_running', `sandbox ${this.sandboxId} is not running`, {
          sandboxId: this.sandboxId,
          cause,
        })
      throw translate(cause, doing, { where: this.where, sandboxId: this.sandboxId })
    }
  }
}
