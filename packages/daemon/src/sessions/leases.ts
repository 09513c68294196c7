import { SandboxError } from '@sandkasten/sdk'
import type { Context, Session } from './context.ts'

/** When a session ends if nobody uses it, and when it ends in any case. */
export function idleEnd(session: Session): number {
  return session.last_activity + session.ttl_ms
}

export function lifetimeEnd(session: Session): number | undefined {
  return session.lifetime_ms === null ? undefined : session.started_at + session.lifetime_ms
}

/**
 * Use is written down once a second, not at every request. A daemon that is killed forgets a second of it, and ends a
 * session by so much too soon.
 */
export class Leases {
  readonly #context: Context
  #writing: Promise<void> = Promise.resolve()

  constructor(context: Context) {
    this.#context = context
  }

  async write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write())
    return this.#writing
  }

  async #write(): Promise<void> {
    const { live, store, log } = this.#context
    const touched = live.takeTouched()
    for (const [index, { id, at, cwd }] of touched.entries()) {
      try {
        await store.sessions.update(id, undefined, {
          last_activity: at,
          ...(cwd === undefined ? {} : { cwd }),
        })
      } catch (error) {
        // Not lost: they are written the next time.
        for (const { id, cwd } of touched.slice(index)) live.touch(id, cwd)
        if (!SandboxError.is(error, 'unavailable', 'disk_full'))
          log.error({ err: error }, 'leases were not written')
        return
      }
    }
  }
}
