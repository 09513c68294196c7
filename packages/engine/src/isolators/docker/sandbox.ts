import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { Container, ContainerInspectInfo } from 'dockerode'
import type { IsolatedSandbox, SandboxEnd, SandboxPlace, SandboxStats } from '../isolator.ts'
import type { SandboxGroups } from '../oci/cgroups.ts'
import { endOf, noteKill } from './end.ts'
import { killContainer, lookAt, untilStopped } from './ending.ts'
import { statusOf, translate } from './errors.ts'
import type { Line } from './reach.ts'
import { statsFrom } from './stats.ts'

/** A running sandbox, as one process holds it. Any number of processes may hold the same. */
export class DockerSandbox implements IsolatedSandbox {
  readonly sandboxId: string
  readonly folder: string
  readonly ended: Promise<SandboxEnd>
  private readonly container: Container
  private readonly line: Line
  private readonly where: string
  private readonly startedAt: string
  private readonly groups: SandboxGroups | undefined
  private readonly end = Promise.withResolvers<SandboxEnd>()
  private over = false

  constructor(options: {
    place: SandboxPlace
    container: Container
    info: ContainerInspectInfo
    line: Line
    where: string
    groups: SandboxGroups | undefined
  }) {
    this.sandboxId = options.place.sandboxId
    this.folder = options.place.folder
    this.container = options.container
    this.line = options.line
    this.where = options.where
    this.startedAt = options.info.State.StartedAt
    this.groups = options.groups
    this.ended = this.end.promise
    void this.watch()
  }

  async connect(): Promise<Duplex> {
    try {
      return await this.line.connect()
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
    const stats = await this.call('Asking for its use', () =>
      this.container.stats({ stream: false, 'one-shot': true } as { stream: false }),
    )
    return statsFrom(stats)
  }

  async freeze(): Promise<void> {
    await this.call('Freezing it', () => this.container.pause())
  }

  async thaw(): Promise<void> {
    await this.call('Thawing it', () => this.container.unpause())
  }

  async kill(): Promise<SandboxEnd> {
    noteKill(this, this.startedAt)
    // When the daemon has answered it is over, whether or not the watch has noticed.
    this.settle(this.endIn(await this.call('Ending it', () => killContainer(this.container))))
    return this.ended
  }

  /** Waits for the end without keeping this process alive. A daemon that is restarted, or away, is asked again. */
  private async watch(): Promise<void> {
    for (let failures = 0; !this.over; ) {
      try {
        await untilStopped(this.container)
        return this.settle(this.endIn(await lookAt(this.container)))
      } catch {
        failures += 1
      }
      await sleep(Math.min(100 * 2 ** failures, 10_000), undefined, { ref: false })
    }
  }

  /** How this very life ended. Removed, or started again by somebody else: it is over, and how is no longer known. */
  private endIn(info: ContainerInspectInfo | undefined): SandboxEnd {
    const end = info?.State.StartedAt === this.startedAt ? endOf(info, this) : undefined
    return end ?? { killed: false, unwitnessed: true, errors: '' }
  }

  private settle(end: SandboxEnd): void {
    this.over = true
    this.end.resolve(end)
  }

  private async call<T>(doing: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (cause) {
      if (statusOf(cause) === 404 || statusOf(cause) === 409)
        throw new SandboxError('not_running', `sandbox ${this.sandboxId} does not run`, {
          sandboxId: this.sandboxId,
          cause,
        })
      throw translate(cause, doing, { where: this.where, sandboxId: this.sandboxId })
    }
  }
}
