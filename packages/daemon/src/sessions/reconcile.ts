import type { SandboxInfo } from '@sandkasten/sdk'
import type { Commands } from './commands/commands.ts'
import { type Context, instanceLabel, type Session, sessionLabel } from './context.ts'
import type { Creator } from './create.ts'
import type { Lifecycle } from './lifecycle.ts'
import { poolLabel } from './pool.ts'
import { isOurs } from './save-disk.ts'
import { mark } from './status.ts'
import type { Use } from './use.ts'
import type { VolumesOfProjects } from './volumes/volumes.ts'

interface Parts {
  readonly lifecycle: Lifecycle
  readonly creator: Creator
  readonly commands: Commands
  readonly use: Use
  readonly volumes: VolumesOfProjects
}

/** The longest delay between a change and the writing of its event. */
const toldWithinMs = 1_000
const newestEvents = 2_000

/**
 * Compares rows with sandboxes in both directions, for sandboxes with this daemon's label only. Sandboxes are listed
 * before rows are read. So a sandbox without a row has no owner, unless its create is still in progress.
 */
export class Reconciler {
  readonly #context: Context
  readonly #parts: Parts

  constructor(context: Context, parts: Parts) {
    this.#context = context
    this.#parts = parts
  }

  async run(): Promise<void> {
    const { store, provider, instanceId, log } = this.#context
    const sandboxes = await provider.list({ labels: { [instanceLabel]: instanceId } })
    const sessions = await store.sessions.live(instanceId)
    const bySandbox = new Map(sandboxes.map((sandbox) => [sandbox.sandboxId, sandbox]))
    const owned = new Set(sessions.map(({ sandbox_id }) => sandbox_id))
    for (const session of sessions) {
      if (this.#busy(session.id)) continue
      await this.#compare(session, bySandbox.get(session.sandbox_id ?? '')).catch((error) =>
        log.warn({ session: session.id, err: error }, 'cannot reconcile a session'),
      )
    }
    for (const sandbox of sandboxes) {
      const id = sandbox.labels[sessionLabel]
      if (sandbox.labels[poolLabel] === this.#context.pool.keeper) continue
      if (owned.has(sandbox.sandboxId) || (id !== undefined && this.#busy(id))) continue
      // The row may have been written after the rows were read.
      const session = id === undefined ? undefined : await store.sessions.get(id)
      if (session?.live === 1 && (session.sandbox_id === null || session.sandbox_id === sandbox.sandboxId))
        continue
      log.info({ sandbox: sandbox.sandboxId, session: id }, 'removing a sandbox without a session')
      await provider
        .destroy(sandbox.sandboxId)
        .catch((error) =>
          log.warn({ sandbox: sandbox.sandboxId, err: error }, 'cannot remove a sandbox without a session'),
        )
    }
    await this.#parts.volumes.finishChanges()
  }

  /**
   * Runs once at the start. Removes snapshots and volumes of this daemon, or of its sandboxes, that have no row: an
   * earlier process ended while it created or deleted them, and no client learned of them.
   */
  async tidy(): Promise<void> {
    const { store, provider, instanceId, log } = this.#context
    await store.sessions.forgetStarts({ instance_id: instanceId })
    await this.#tellAgain()
    await provider.sweep?.()
    await this.#parts.volumes.tidy()
    if (!provider.capabilities.snapshot) return
    const known = new Set(await store.snapshots.providerIds(instanceId))
    const ours = new Set((await store.sessions.live(instanceId)).map(({ sandbox_id }) => sandbox_id))
    for (const { snapshotId, sandboxId, name } of await provider.listSnapshots()) {
      const mine = isOurs(instanceId, name) || (sandboxId !== undefined && ours.has(sandboxId))
      if (!mine || known.has(snapshotId)) continue
      log.info({ snapshot: snapshotId }, 'removing a snapshot without a row')
      await provider.deleteSnapshot(snapshotId)
    }
  }

  /** Publishes changes that an earlier process wrote, but did not publish before it ended. */
  async #tellAgain(): Promise<void> {
    const { store, instanceId, events } = this.#context
    const told = await store.records.newestEvents(instanceId, newestEvents)
    const since = (told[0]?.created_at ?? toldWithinMs) - toldWithinMs
    for (const session of await store.sessions.changedSince(instanceId, since)) {
      const { id, status, status_at: at, project_id: projectId } = session
      const isTold = told.some(
        (event) => event.session_id === id && event.type === `session.${status}` && event.created_at >= at,
      )
      if (status === 'creating' || isTold) continue
      const data = { by: session.status_by, reason: session.status_reason }
      events.publish({ projectId, sessionId: id, type: `session.${status}`, data })
    }
  }

  /** Marks sessions as crashed as soon as their sandbox ends. */
  watch(): void {
    const { provider, log } = this.#context
    provider.onEnded?.((info) => {
      this.#ended(info).catch((error) =>
        log.warn({ sandbox: info.sandboxId, err: error }, 'cannot record the end of a sandbox'),
      )
    })
  }

  async #ended({ sandboxId, labels }: SandboxInfo): Promise<void> {
    const { store, provider, live } = this.#context
    const id = labels[sessionLabel]
    if (id === undefined) return
    await live.locked(id, async () => {
      const session = await store.sessions.get(id)
      if (session?.sandbox_id !== sandboxId || session.live === 0 || session.status === 'creating') return
      // The sandbox may have been started again meanwhile.
      const sandbox = await provider.get(sandboxId, { resume: false })
      await this.#compare(session, await sandbox.info())
    })
  }

  /** Runs once at the start. Watches sandboxes and follows commands of an earlier process. */
  async recover(): Promise<void> {
    const { store, instanceId, log, provider } = this.#context
    const { commands, use } = this.#parts
    for (const session of await store.sessions.live(instanceId)) {
      if (session.sandbox_id !== null && (session.status === 'running' || session.status === 'paused'))
        await provider
          .watch?.(session.sandbox_id)
          .catch((error) =>
            log.warn({ session: session.id, err: error }, 'cannot watch a sandbox for its end'),
          )
      const caller = { projectId: session.project_id, keyId: 'daemon', scopes: [], requestId: 'start' }
      await commands
        .recover(session, () => use.take(caller, session.id))
        .catch((error) =>
          log.warn({ session: session.id, err: error }, 'cannot recover the commands of a session'),
        )
    }
  }

  async #compare(session: Session, sandbox: SandboxInfo | undefined): Promise<void> {
    const { lifecycle, creator } = this.#parts
    if (session.status === 'creating') {
      if (!creator.isPending(session.id)) await this.#undo(session)
      return
    }
    if (!sandbox) {
      if (session.status === 'running' || session.status === 'paused')
        await lifecycle.crashed(session, 'reconciler', 'its sandbox is gone', false)
      else await this.#mark(session, 'crashed', 'its sandbox is gone', { live: 0 })
      return
    }
    if (session.status === 'running' || session.status === 'paused') {
      if (sandbox.status === 'stopped' || sandbox.status === 'failed')
        await lifecycle.crashed(session, 'reconciler', 'its sandbox ended by itself', true)
      else if (
        sandbox.status !== session.status &&
        (sandbox.status === 'running' || sandbox.status === 'paused')
      )
        await this.#mark(session, sandbox.status, 'found so', {})
      return
    }
    if (session.starting === 1) await this.#context.store.sessions.forgetStarts({ id: session.id })
    // A stop or start was interrupted. Clients know the written status, so the sandbox follows it.
    if (sandbox.status === 'running')
      await (await this.#context.provider.get(sandbox.sandboxId, { resume: false })).stop()
  }

  /** Undoes a create that no client learned of. Its sandbox then has no owner and is removed with the others. */
  async #undo(session: Session): Promise<void> {
    const { store } = this.#context
    await mark(this.#context, session, 'failed', {
      by: 'reconciler',
      reason: 'the daemon ended during the create',
      from: ['creating'],
    })
    await store.sessions.forgetIdempotency(session.id)
  }

  async #mark(
    session: Session,
    status: Session['status'],
    reason: string,
    changes: Partial<Session>,
  ): Promise<void> {
    await mark(this.#context, session, status, { by: 'reconciler', reason, from: [session.status], changes })
  }

  #busy(id: string): boolean {
    const { live } = this.#context
    return live.holds(id) > 0 || live.busy(id) || this.#parts.creator.isPending(id)
  }
}
