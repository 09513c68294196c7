import { SandboxError } from '@sandkasten/sdk'
import type { Store } from '../store/index.ts'

/** Limits on what clients of a front can make the daemon remember. */
export const recordLimits = { keyChars: 5000, dataBytes: 1_048_576, perSession: 1000 } as const

/** One front's records in the database: JSON by project, kind and key. */
export class FrontRecords {
  readonly #store: Store['fronts']
  readonly #front: string

  constructor(store: Store['fronts'], front: string) {
    this.#store = store
    this.#front = front
  }

  async get<T>(projectId: string, kind: string, key: string): Promise<T | undefined> {
    const row = await this.#store.get(this.#front, projectId, kind, key)
    return row && (JSON.parse(row.data) as T)
  }

  /** The project's records in key order, or those of one session. */
  async list<T>(
    projectId: string,
    kind: string,
    { sessionId }: { sessionId?: string } = {},
  ): Promise<Array<{ key: string; data: T }>> {
    const rows =
      sessionId === undefined
        ? await this.#store.list(this.#front, projectId, kind)
        : await this.#store.ofSession(this.#front, sessionId, kind)
    return rows.map(({ key, data }) => ({ key, data: JSON.parse(data) as T }))
  }

  /** Replaces the record with this key. A record that names a session is deleted with it. */
  async put(projectId: string, kind: string, key: string, data: unknown, sessionId?: string): Promise<void> {
    await this.#checkCount(projectId, kind, key, sessionId)
    await this.#store.put({ ...this.#row(projectId, kind, key, data), session_id: sessionId ?? null })
  }

  /** For histories: removes the session's oldest records of this kind when there are too many. */
  async append(
    projectId: string,
    kind: string,
    key: string,
    data: unknown,
    sessionId: string,
  ): Promise<void> {
    await this.#store.forgetOldest(sessionId, kind, recordLimits.perSession - 1)
    await this.#store.put({ ...this.#row(projectId, kind, key, data), session_id: sessionId })
  }

  /** False when a record with this key exists. */
  async insert(
    projectId: string,
    kind: string,
    key: string,
    data: unknown,
    sessionId?: string,
  ): Promise<boolean> {
    await this.#checkCount(projectId, kind, key, sessionId)
    return this.#store.insert({ ...this.#row(projectId, kind, key, data), session_id: sessionId ?? null })
  }

  delete(projectId: string, kind: string, key: string): Promise<boolean> {
    return this.#store.delete(this.#front, projectId, kind, key)
  }

  async #checkCount(projectId: string, kind: string, key: string, sessionId?: string): Promise<void> {
    if (sessionId === undefined || (await this.#store.count(sessionId, kind)) < recordLimits.perSession)
      return
    if (await this.#store.get(this.#front, projectId, kind, key)) return
    throw new SandboxError(
      'quota_exceeded',
      `The sandbox already has ${recordLimits.perSession} records of the kind “${kind}”.`,
      { hint: 'Delete some of them, or create another sandbox.' },
    )
  }

  #row(projectId: string, kind: string, key: string, data: unknown) {
    const json = JSON.stringify(data)
    if (key.length > recordLimits.keyChars || json.length > recordLimits.dataBytes)
      throw new SandboxError('too_large', `A record of the kind “${kind}” is too large.`, {
        details: recordLimits,
        hint: 'Send shorter names and values.',
      })
    return {
      front: this.#front,
      project_id: projectId,
      kind,
      key,
      data: json,
      created_at: Date.now(),
    }
  }
}
