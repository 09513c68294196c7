import { mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { RunnerClient, type TaskOutput } from '@sandkasten/runner-client'
import { type CreateOption, type Isolation, SandboxError, type SandboxInfo } from '@sandkasten/sdk'
import type { SandboxRecord } from '@sandkasten/sdk/internal'
import { PortForwards } from '@sandkasten/sdk/internal'
import type { CreateSpec } from '@sandkasten/sdk/provider'
import { StandIns } from '../images/index.ts'
import type { IsolatedSandbox, Isolator, ProbeResult, SandboxStats } from '../isolators/isolator.ts'
import type { TreeRights } from '../layers/index.ts'
import type { EngineCapabilities } from './capabilities.ts'
import { LayeredDriver } from './layered-driver.ts'
import { PortDialer } from './port-dialer.ts'
import { EngineSandbox } from './sandbox.ts'
import { type EngineDefaults, extraOf, type FindImage, planOf } from './spec.ts'

/** Sandboxes of an isolator: a folder for the disk and the record, a runner inside, and connections to it. */
export class EngineDriver extends LayeredDriver {
  readonly name = 'engine'
  readonly isolation: Isolation
  readonly capabilities: EngineCapabilities
  protected readonly engineOptions: readonly CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'lifetimeMs',
    'snapshotId',
    'image',
    'ports',
    'resources',
    'repo',
    'gitToken',
    'providerOptions',
  ]
  readonly createOptions: readonly CreateOption[] = this.engineOptions
  readonly defaults: EngineDefaults
  readonly #isolator: () => Promise<Isolator>
  readonly #closeIsolator: () => Promise<void>
  protected readonly findImage: FindImage
  protected readonly standIns: StandIns
  readonly #stays: boolean
  readonly #live = new Map<string, Live>()
  /** Told of a sandbox of this process, or one that it watches, that has ended by itself. */
  onEnded: (info: SandboxInfo) => void = () => {}

  constructor(options: {
    root: string
    isolator: () => Promise<Isolator>
    /** The runner's binary. */
    runner: () => Promise<string>
    /** Where the engine itself may not touch sandboxes’ files. */
    rights?: TreeRights | undefined
    /** Where the isolator has been made, closes it. */
    closeIsolator: () => Promise<void>
    defaults: EngineDefaults
    capabilities: EngineCapabilities
    isolation?: Isolation
    findImage: FindImage
    standIns?: StandIns
    stays?: boolean
  }) {
    super(options.root, options.runner, options.rights)
    this.findImage = options.findImage
    this.standIns = options.standIns ?? new StandIns()
    this.#isolator = options.isolator
    this.#closeIsolator = options.closeIsolator
    this.defaults = options.defaults
    this.capabilities = options.capabilities
    this.isolation = options.isolation ?? 'container'
    this.#stays = options.stays ?? false
  }

  override async health(): Promise<boolean> {
    return (await super.health()) && (await (await this.#isolator()).probe()).ok
  }

  async probe(): Promise<ProbeResult> {
    return (await this.#isolator()).probe()
  }

  /** What is weaker than usual is said with everything else that is known of a sandbox. */
  override async info(sandboxId: string): Promise<SandboxInfo> {
    const info = await super.info(sandboxId)
    // Asking for it may mean asking a daemon that is away; the rest is known without.
    const weaker = await this.#isolator()
      .then((isolator) => isolator.weaker?.())
      .catch(() => undefined)
    return weaker === undefined || weaker.length === 0 ? info : { ...info, weaker: [...weaker] }
  }

  /** A connection to the sandbox's runner; all handles of this provider share it. */
  client(record: SandboxRecord): Promise<RunnerClient> {
    const live = this.#liveOf(record)
    live.client ??= connect(live.isolated, () => {
      live.client = undefined
      live.writers.clear()
    })
    return live.client
  }

  forwards(record: SandboxRecord): PortForwards {
    return this.#liveOf(record).forwards
  }

  /** A byte stream to a port of the sandbox. */
  async dial(sandboxId: string, port: number): Promise<Duplex> {
    await this.prepare()
    const record = await this.current(sandboxId)
    if (record.status !== 'running')
      throw new SandboxError('not_running', `The sandbox ${sandboxId} is ${record.status}.`, { sandboxId })
    return this.#liveOf(record).dialer.dial(port)
  }

  /** Streams into the stdin of its processes, by process; shared by all handles. */
  writers(sandboxId: string): Map<string, TaskOutput> {
    return this.#live.get(sandboxId)?.writers ?? new Map()
  }

  /** How often the kernel has killed for lack of memory in it. */
  async oomKills(record: SandboxRecord): Promise<number | undefined> {
    return (await this.#liveOf(record).isolated).oomKills()
  }

  /** Whether this start of the sandbox has ended, or does so within a moment. */
  async hasEnded(sandboxId: string, incarnation: string): Promise<boolean> {
    const live = this.#live.get(sandboxId)
    if (live?.incarnation !== incarnation) {
      const record = await this.current(sandboxId).catch(() => undefined)
      return record?.incarnation !== incarnation || record.status === 'stopped'
    }
    const ended = live.isolated.then(
      ({ ended }) => ended.then(() => true),
      () => true,
    )
    const late = new AbortController()
    const moment = sleep(endMs, false, { signal: late.signal }).catch(() => false)
    return Promise.race([ended, moment]).finally(() => late.abort())
  }

  /** From now on `onEnded` is told of this one, too. */
  async watch(sandboxId: string): Promise<void> {
    await this.prepare()
    const record = await this.current(sandboxId)
    if (record.status === 'running' || record.status === 'paused') await this.#liveOf(record).isolated
  }

  /** What it uses now. */
  async stats(sandboxId: string): Promise<SandboxStats> {
    await this.prepare()
    const record = await this.current(sandboxId)
    if (record.status === 'stopped') await this.check(sandboxId, record.incarnation)
    return (await this.#liveOf(record).isolated).stats()
  }

  /**
   * With the lock, as everything that stops and starts it: a copy of its disk may be under way. Written down first, for one who is killed in between: what is
   * said to be paused and runs goes on by `resume`; what is frozen and said to run would be thawed by nobody.
   */
  async pause({ sandboxId }: SandboxRecord): Promise<void> {
    await this.change(sandboxId, (now) => (now.status === 'running' ? { ...now, status: 'paused' } : now))
    let failed: { error: unknown } | undefined
    await this.change(sandboxId, async (now) => {
      if (now.status !== 'paused') return now
      try {
        await (await this.isolatedOf(now)).freeze()
        return now
      } catch (error) {
        failed = { error }
        return { ...now, status: 'running' }
      }
    })
    if (failed) throw failed.error
  }

  async resume({ sandboxId }: SandboxRecord): Promise<void> {
    const resume = async (now: SandboxRecord): Promise<SandboxRecord> => {
      if (now.status !== 'paused') return now
      await (await this.isolatedOf(now)).thaw()
      return { ...now, status: 'running' }
    }
    await this.change(sandboxId, resume, async (now) => (await this.isolatedOf(now)).freeze())
  }

  protected isolator(): Promise<Isolator> {
    return this.#isolator()
  }

  protected isolatedOf(record: SandboxRecord): Promise<IsolatedSandbox> {
    return this.#liveOf(record).isolated
  }

  protected override furnish(folder: string): void {
    mkdirSync(path.join(folder, 'disk'), { mode: 0o700 })
  }

  /** For a process that stays: the next one's folder is made while nobody waits. */
  async #prepareNext(): Promise<void> {
    const isolator = await this.#isolator()
    this.drafts.prepare((folder) => isolator.furnish?.(path.join(folder, 'disk')))
  }

  protected override async plan(spec: CreateSpec): Promise<Record<string, unknown>> {
    return { ...(await planOf(spec, this.defaults, this.findImage)) }
  }

  protected async boot(folder: string, record: SandboxRecord): Promise<void> {
    try {
      await this.claimDisks(record)
      const live = this.#remember(
        record,
        this.#isolator().then((isolator) => isolator.start(this.spec(folder, record))),
      )
      await live.isolated
      if (this.#stays) await this.#prepareNext()
    } catch (error) {
      await this.giveUpVolumes(record)
      throw error
    }
  }

  protected async halt(folder: string, record: SandboxRecord): Promise<void> {
    const live = this.#live.get(record.sandboxId)
    this.#live.delete(record.sandboxId)
    await live?.forwards.close()
    await live?.dialer.close()
    const known = await live?.isolated.catch(() => undefined)
    const isolated = known ?? (await (await this.#isolator()).attach(this.spec(folder, record)))
    await isolated?.kill()
    await this.giveUpVolumes(record)
  }

  /** Lets go of everything that this process holds: connections, forwarded ports, what is kept for the next start. Sandboxes go on. */
  async close(): Promise<void> {
    const all = [...this.#live.values()]
    this.#live.clear()
    await Promise.all(
      all.map(async ({ forwards, dialer, client }) => {
        await forwards.close()
        await dialer.close()
        await client?.then(
          (client) => client.close(),
          () => {},
        )
      }),
    )
    await this.drafts.clear()
    await this.trees.close()
    await this.#closeIsolator()
  }

  protected override async release(folder: string, record: SandboxRecord): Promise<void> {
    await (await this.#isolator()).remove(this.spec(folder, record))
  }

  protected override async abandon(folder: string, sandboxId: string): Promise<void> {
    const place = { sandboxId, folder: path.join(folder, 'disk') }
    const isolator = await this.#isolator()
    await (await isolator.attach(place))?.kill()
    await isolator.remove(place)
  }

  protected async lives(folder: string, record: SandboxRecord): Promise<boolean> {
    const live = this.#live.get(record.sandboxId)
    if (live?.incarnation === record.incarnation && !live.ended) return true
    return (await (await this.#isolator()).attach(this.spec(folder, record))) !== undefined
  }

  protected handle(_folder: string, record: SandboxRecord): EngineSandbox {
    return new EngineSandbox(this, record, extraOf(record).workdir)
  }

  #liveOf(record: SandboxRecord): Live {
    const known = this.#live.get(record.sandboxId)
    if (known?.incarnation === record.incarnation) return known
    const place = this.spec(this.folderOf(record.sandboxId), record)
    const found = this.#isolator().then((isolator) => isolator.attach(place))
    return this.#remember(
      record,
      found.then((isolated) => {
        if (isolated) return isolated
        throw new SandboxError('not_running', `The sandbox ${record.sandboxId} has ended.`, {
          provider: this.name,
        })
      }),
    )
  }

  #remember(record: SandboxRecord, isolated: Promise<IsolatedSandbox>): Live {
    const dialer = new PortDialer(() => connect(isolated, () => {}))
    const live: Live = {
      incarnation: record.incarnation,
      isolated,
      ended: false,
      client: undefined,
      writers: new Map(),
      dialer,
      forwards: new PortForwards((port) => dialer.dial(port)),
    }
    this.#live.set(record.sandboxId, live)
    const { sandboxId } = record
    const forget = () => {
      live.ended = true
      if (this.#live.get(sandboxId) !== live) return false
      this.#live.delete(sandboxId)
      return true
    }
    const ended = () => {
      // One that we end ourselves was forgotten before.
      if (!forget()) return
      void dialer.close()
      this.info(sandboxId).then(
        (info) => this.onEnded(info),
        () => {},
      )
    }
    isolated.then(({ ended: end }) => end.then(ended), forget)
    return live
  }
}

/** How long after its connection the end of a sandbox is known at most. */
const endMs = 1_000

interface Live {
  readonly incarnation: string
  readonly isolated: Promise<IsolatedSandbox>
  readonly dialer: PortDialer
  readonly forwards: PortForwards
  readonly writers: Map<string, TaskOutput>
  client: Promise<RunnerClient> | undefined
  ended: boolean
}

async function connect(isolated: Promise<IsolatedSandbox>, onClosed: () => void): Promise<RunnerClient> {
  try {
    const client = await RunnerClient.connect(await (await isolated).connect())
    void client.connection.closed.then(onClosed)
    return client
  } catch (error) {
    onClosed()
    throw error
  }
}
