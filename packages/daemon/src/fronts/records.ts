import { SandboxError } from '@sandkasten/sdk'
import type { Store } from '../store/index.ts'

/** Records of all fronts for one session. */
const mostOfSession = 5_000

/** One front's corner of the database: JSON under a kind and a key, for one project. */
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

  /** In key order; all of the project's, or those of one session of it. */
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

  /** In the place of the one that is there. One that names a session is gone with it. */
  async put(projectId: string, kind: string, key: string, data: unknown, sessionId?: string): Promise<void> {
    await this.#refuseTooMany(sessionId)
    return this.#store.put({ ...this.#row(projectId, kind, key, data), session_id: sessionId ?? null })
  }

  /** False when there is one already. */
  async insert(
    projectId: string,
    kind: string,
    key: string,
    data: unknown,
    sessionId?: string,
  ): Promise<boolean> {
    await this.#refuseTooMany(sessionId)
    return this.#store.insert({ ...this.#row(projectId, kind, key, data), session_id: sessionId ?? null })
  }

  delete(projectId: string, kind: string, key: string): Promise<boolean> {
    return this.#store.delete(this.#front, projectId, kind, key)
  }

  /** Clients choose how many they make, such as one for each file that they describe. */
  async #refuseTooMany(sessionId: string | undefined): Promise<void> {
    if (sessionId === undefined || (await this.#store.count(sessionId)) < mostOfSession) return
    throw new SandboxError('quota_exceeded', `The sandbox has ${mostOfSession} records already.`, {
      hint: 'Remove files with metadata, or sessions of its toolbox, that are not needed.',
    })
  }

  #row(projectId: string, kind: string, key: string, data: unknown) {
    return {
      front: this.#front,
      project_id: projectId,
      kind,
      key,
      data: JSON.stringify(data),
      created_at: Date.now(),
    }
  }
}
