import { SandboxError } from '@sandkasten/sdk'
import { type Caller, includes } from '../keys/index.ts'
import type { Context, Sandbox, Session } from './context.ts'
import type { Lifecycle, Meant } from './lifecycle.ts'
import type { Open } from './live-sessions.ts'
import { noSession, refuseOther } from './status.ts'

export interface Used {
  readonly session: Session
  readonly sandbox: Sandbox
  readonly open: Open
}

export interface UseOptions extends Meant {
  /** Whether to start a stopped session. Default: if the session allows it and the caller may run commands. */
  wake?: boolean
}

/** Opens sessions for work: finds them within the project, wakes them, holds them, and extends their lease. */
export class Use {
  readonly #context: Context
  readonly #lifecycle: Lifecycle

  constructor(context: Context, lifecycle: Lifecycle) {
    this.#context = context
    this.#lifecycle = lifecycle
  }

  /** The caller's session in any state. Reading it is not activity. */
  async find(caller: Caller, id: string): Promise<Session> {
    const session = await this.#context.store.sessions.get(id)
    if (!session || session.project_id !== caller.projectId) throw noSession(id)
    const touched = this.#context.live.touched(id)
    if (!touched) return session
    return {
      ...session,
      last_activity: Math.max(touched.at, session.last_activity),
      cwd: touched.cwd ?? session.cwd,
    }
  }

  /** A session that belongs to this daemon. */
  async findHere(caller: Caller, id: string): Promise<Session> {
    const session = await this.find(caller, id)
    if (session.instance_id === this.#context.instanceId) return session
    throw new SandboxError('conflict', `The session ${id} is on another daemon.`, {
      hint: 'Ask the daemon that created it.',
      details: { instance: session.instance_id },
    })
  }

  async use<T>(
    caller: Caller,
    id: string,
    work: (used: Used) => Promise<T>,
    options: UseOptions = {},
  ): Promise<T> {
    const { live } = this.#context
    const used = await this.take(caller, id, options)
    try {
      const result = await work(used)
      live.touch(id)
      return result
    } catch (error) {
      throw await this.#failed(used, error)
    } finally {
      used.release()
    }
  }

  /** For work that outlives a call: holds the session until `release`. */
  async take(caller: Caller, id: string, options: UseOptions = {}): Promise<Used & { release: () => void }> {
    const { live } = this.#context
    const release = live.hold(id)
    try {
      await live.settled(id)
      const found = await this.findHere(caller, id)
      refuseOther(found, options.incarnation)
      // A key with the scope `read` must not start a sandbox.
      const mayWake = options.wake ?? (found.wake_on_use === 1 && includes(caller.scopes, 'exec'))
      const wake = mayWake && options.incarnation === undefined ? { by: `key:${caller.keyId}` } : undefined
      const { session, open } = await this.#lifecycle.opened(found, wake)
      return { session, sandbox: open.sandbox, open, release }
    } catch (error) {
      release()
      throw error
    }
  }

  /** Checks after a failed call whether the sandbox has ended, and records that. */
  async #failed({ session, sandbox }: Used, error: unknown): Promise<unknown> {
    const { live } = this.#context
    if (!SandboxError.is(error) || error.status < 500) live.touch(session.id)
    if (!SandboxError.is(error, 'not_running', 'interrupted', 'connection_lost', 'not_found')) return error
    const status = await sandbox
      .status()
      .catch((cause) => (SandboxError.is(cause, 'not_found') ? 'destroyed' : undefined))
    if (status !== 'stopped' && status !== 'destroyed') return error
    // Another call may be changing the session and noting its end right now.
    await live.settled(session.id)
    const now = await this.#context.store.sessions.get(session.id)
    if (now?.incarnation !== session.incarnation) return error
    const reason = status === 'stopped' ? 'its sandbox ended by itself' : 'its sandbox is gone'
    const crashed = (await this.#lifecycle.crashed(now, 'daemon', reason, status === 'stopped')) ?? now
    if (crashed.status !== 'crashed') return error
    return new SandboxError('interrupted', `The sandbox of session ${session.id} has ended.`, {
      cause: error,
      details: { status: crashed.status },
      hint: {
        sdk: 'Its processes have ended and its files remain. Start it again with start(). Check what the command did before you run it again.',
        http: 'Its processes have ended and its files remain. Start it again with POST /v1/sessions/{id}/start. Check what the command did before you run it again.',
        cli: 'Its processes have ended and its files remain. Start it again with sandkasten sessions start. Check what the command did before you run it again.',
      },
    })
  }
}
