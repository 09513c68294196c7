import { SandboxError } from '@sandkasten/sdk'
import type { EndAction } from '../config/index.ts'
import type { Context, Sandbox, Session } from './context.ts'
import { leasesUnder, refuseBeyond, rulesOf, wishedBy } from './limits/policy.ts'
import { quotaCheck, withinSnapshotQuota } from './limits/quotas.ts'
import type { Open } from './live-sessions.ts'
import { saveDisk } from './save-disk.ts'
import { mark, noSession, notUsable, refuseOther } from './status.ts'
import { translateVolumeError, volumeCheck } from './volumes/mounts.ts'

/** The start of the sandbox that the request is for. After another start it fails with `interrupted`. */
export interface Meant {
  incarnation?: number
}

/**
 * Changes a session's state. Every method takes the session's lock, reads the row again, and does nothing when the
 * session already has the wanted state.
 */
export class Lifecycle {
  readonly #context: Context
  /** Called after a session was resumed. */
  onResumed: (session: Session) => void = () => {}

  constructor(context: Context) {
    this.#context = context
  }

  /** The open sandbox of a running session. `wake` starts a stopped one. */
  async opened(
    session: Session,
    wake: { by: string } | undefined,
  ): Promise<{ session: Session; open: Open }> {
    if (session.status === 'running') {
      const open = this.#context.live.opened(session.id, session.incarnation)
      if (open) return { session, open }
      return { session, open: await this.#reopen(session) }
    }
    if (!wake || session.live === 0 || session.status === 'creating') throw notUsable(session)
    const woken =
      session.status === 'paused'
        ? await this.resume(session.id, wake.by, { reason: 'woken by use' })
        : await this.start(session.id, wake.by, { reason: 'woken by use' })
    return this.opened(woken, undefined)
  }

  start(
    id: string,
    by: string,
    { incarnation, reason = 'started' }: Meant & { reason?: string } = {},
  ): Promise<Session> {
    return this.#locked(id, async (session) => {
      refuseOther(session, incarnation)
      if (session.status === 'running') return session
      if (session.status === 'paused') return this.#resume(session, by, reason)
      if (session.live === 0 || (session.status !== 'stopped' && session.status !== 'crashed'))
        throw notUsable(session)
      const { provider, live } = this.#context
      const project = await this.#context.store.keys.project(session.project_id)
      const rules = await rulesOf(this.#context, { projectId: session.project_id, policy: project?.policy })
      refuseBeyond(rules, wishedBy(session))
      live.drop(id)
      const reserved = await this.#reserve(session, project?.quotas)
      let sandbox: Sandbox
      try {
        sandbox = (await provider.get(session.sandbox_id!, { resume: true })) as Sandbox
      } catch (error) {
        if (reserved) await this.#context.store.sessions.forgetStarts({ id })
        throw translateVolumeError(session, error)
      }
      const now = Date.now()
      const started = await this.#mark(session, 'running', by, reason, {
        incarnation: session.incarnation + 1,
        started_at: now,
        last_activity: now,
        cwd: null,
        ...leasesUnder(rules, session),
        ...(reserved ? { starting: 0 } : {}),
      })
      live.open(id, started.incarnation, sandbox)
      live.touch(id)
      return started
    })
  }

  stop(id: string, by: string, { incarnation }: Meant = {}): Promise<Session> {
    return this.#locked(id, async (session) => {
      refuseOther(session, incarnation)
      if (session.live === 1 && (session.status === 'stopped' || session.status === 'crashed')) return session
      if (session.status !== 'running' && session.status !== 'paused') throw notUsable(session)
      return this.#stop(session, by, 'stopped')
    })
  }

  pause(id: string, by: string, { incarnation }: Meant = {}): Promise<Session> {
    return this.#locked(id, async (session) => {
      refuseOther(session, incarnation)
      if (session.status === 'paused') return session
      if (session.status !== 'running') throw notUsable(session)
      await (await this.#sandbox(session)).pause()
      return this.#mark(session, 'paused', by, 'paused')
    })
  }

  resume(
    id: string,
    by: string,
    { incarnation, reason = 'resumed' }: Meant & { reason?: string } = {},
  ): Promise<Session> {
    return this.#locked(id, async (session) => {
      refuseOther(session, incarnation)
      if (session.status === 'running') return session
      if (session.status !== 'paused') throw notUsable(session)
      return this.#resume(session, by, reason)
    })
  }

  /** False when the session had already ended. The row changes first: if the rest fails, reconciliation finishes it. */
  destroy(
    id: string,
    by: string,
    reason = 'destroyed',
    status: 'destroyed' | 'expired' = 'destroyed',
  ): Promise<boolean> {
    return this.#locked(id, async (session) => {
      if (session.live === 0) return false
      const { live, provider } = this.#context
      await this.#mark(session, status, by, reason)
      live.drop(id)
      if (session.sandbox_id !== null) await provider.destroy(session.sandbox_id)
      return true
    })
  }

  /** Applies the action at the end of a lease. Calls `still` under the lock to check that the end is still due. */
  end(
    id: string,
    action: EndAction,
    reason: string,
    still: (session: Session) => Promise<boolean>,
  ): Promise<boolean> {
    return this.#locked(id, async (session) => {
      if (!(await still(session))) return false
      const { live, provider } = this.#context
      if (action === 'destroy') {
        await this.#mark(session, 'expired', 'reaper', reason)
        live.drop(id)
        if (session.sandbox_id !== null) await provider.destroy(session.sandbox_id)
        return true
      }
      if (action === 'pause') {
        if (session.status === 'paused') return false
        await (await this.#sandbox(session)).pause()
        await this.#mark(session, 'paused', 'reaper', reason)
        return true
      }
      if (action === 'snapshot-and-stop') await this.#save(session)
      await this.#stop(session, 'reaper', reason)
      return true
    })
  }

  /** Records that the sandbox ended by itself. With its `disk` it can be started again. */
  async crashed(session: Session, by: string, reason: string, disk: boolean): Promise<Session | undefined> {
    this.#context.live.drop(session.id)
    return mark(this.#context, session, 'crashed', {
      by,
      reason,
      from: ['running', 'paused'],
      changes: disk ? {} : { live: 0 },
    })
  }

  /** Reserves the quota and the volumes that a started session uses. False when it needs neither. */
  async #reserve(session: Session, quotas: string | null | undefined): Promise<boolean> {
    const wanted = { sessions: 0, cpu: session.cpu, memoryMb: session.mem_mb, diskMb: session.disk_mb }
    const check = await quotaCheck(this.#context, { projectId: session.project_id, quotas }, wanted)
    const volumes = volumeCheck(session)
    if (!check && !volumes) return false
    await this.#context.store.sessions.reserveStart(session, { check, volumes })
    return true
  }

  async #stop(session: Session, by: string, reason: string): Promise<Session> {
    const sandbox = await this.#sandbox(session)
    await sandbox.stop()
    this.#context.live.drop(session.id)
    return this.#mark(session, 'stopped', by, reason)
  }

  async #resume(session: Session, by: string, reason: string): Promise<Session> {
    await (await this.#sandbox(session)).resume()
    this.#context.live.touch(session.id)
    const resumed = await this.#mark(session, 'running', by, reason)
    this.onResumed(resumed)
    return resumed
  }

  async #save(session: Session): Promise<void> {
    const sandbox = await this.#sandbox(session)
    try {
      await withinSnapshotQuota(this.#context, session.project_id, () =>
        saveDisk(this.#context, session, sandbox),
      )
    } catch (error) {
      // Without the snapshot the session still stops, and keeps its disk.
      if (!SandboxError.is(error, 'quota_exceeded')) throw error
      this.#context.log.warn({ session: session.id, err: error }, 'stopped a session without its snapshot')
    }
  }

  async #sandbox(session: Session): Promise<Sandbox> {
    const open = this.#context.live.opened(session.id, session.incarnation)
    return (open ?? (await this.#reopen(session))).sandbox
  }

  /** Reconnects to a sandbox that kept running while the daemon restarted. */
  async #reopen(session: Session): Promise<Open> {
    const { provider, live } = this.#context
    try {
      const sandbox = (await provider.get(session.sandbox_id!, { resume: false })) as Sandbox
      return (
        live.opened(session.id, session.incarnation) ?? live.open(session.id, session.incarnation, sandbox)
      )
    } catch (error) {
      if (!SandboxError.is(error, 'not_found')) throw error
      const crashed = await this.crashed(session, 'daemon', 'its sandbox is gone', false)
      throw notUsable(crashed ?? session)
    }
  }

  #locked<T>(id: string, work: (session: Session) => Promise<T>): Promise<T> {
    const { live, store } = this.#context
    return live.locked(id, async () => {
      const session = await store.sessions.get(id)
      if (!session) throw noSession(id)
      return work(session)
    })
  }

  async #mark(
    session: Session,
    status: Session['status'],
    by: string,
    reason: string,
    changes: Partial<Session> = {},
  ): Promise<Session> {
    const changed = await mark(this.#context, session, status, { by, reason, changes })
    if (!changed) throw noSession(session.id)
    return changed
  }
}
