import { SandboxError } from '../errors.ts'
import { checkKnown } from '../shared/known-options.ts'
import type { CallOptions } from '../spec/index.ts'
import { type ConnectionOptions, daemonConnection } from './connection.ts'
import type { EgressEvent, EgressEventsOptions, SecretInfo } from './egress.ts'
import { Http, segment } from './http.ts'
import { listOptions } from './known-options.ts'
import { serverEvents } from './server-events.ts'
import { Session } from './session.ts'
import type {
  CreateSessionOptions,
  ListSessionsOptions,
  Page,
  Policy,
  ProjectPolicy,
  SessionEvent,
  SessionInfo,
  SnapshotInfo,
  VolumeInfo,
} from './types.ts'
import {
  createBody,
  policyBody,
  projectPolicy,
  secretInfo,
  sessionEvent,
  sessionInfo,
  snapshotInfo,
  volumeInfo,
} from './wire.ts'

/**
 * The client of the daemon's API. It needs only fetch, and WebSocket for terminals, so it runs in Node, browsers and Workers.
 *
 *     const client = new SandboxClient({ url: 'http://127.0.0.1:8080', apiKey })
 *     const session = await client.createSession()
 *     const { output } = await session.exec('echo hello')
 */
export class SandboxClient {
  readonly #http: Http

  /** Missing options come from `SANDKASTEN_URL` and `SANDKASTEN_API_KEY`. */
  constructor(opts: ConnectionOptions = {}) {
    this.#http = new Http(daemonConnection(opts))
  }

  /** Resolves when the session is running. */
  async createSession(opts: CreateSessionOptions = {}): Promise<Session> {
    return (await this.create(opts)).session
  }

  /** Like `createSession`, and returns the session's info, too. */
  async create(opts: CreateSessionOptions = {}): Promise<{ session: Session; info: SessionInfo }> {
    const json = createBody(opts)
    const info = sessionInfo(await this.#http.json('POST', '/v1/sessions', { json, signal: opts.signal }))
    return { session: new Session(this.#http, info.id), info }
  }

  /** Throws `not_found` when there is no such session. Does not extend its lease. */
  async getSession(id: string, options: CallOptions = {}): Promise<Session> {
    const session = this.session(id)
    await session.info(options)
    return session
  }

  /** A session by its id. Makes no request. `bound` is the incarnation that the object refers to. */
  session(id: string, options: { bound?: number } = {}): Session {
    if (/^[a-z2-7]{16}$/.test(id)) return new Session(this.#http, id, options)
    throw new SandboxError('not_found', `There is no session ${JSON.stringify(id)}.`, {
      hint: 'List sessions with listSessions().',
    })
  }

  /** All matching sessions, newest first; with `limit`, one page of them. */
  async listSessions(options: ListSessionsOptions = {}): Promise<Page<SessionInfo>> {
    checkKnown(options, listOptions, 'listSessions()')
    const { status, name, subject, labels = {}, limit, signal } = options
    const query = {
      status: typeof status === 'string' ? status : status?.join(','),
      name,
      subject,
      label: Object.entries(labels).map(([key, value]) => `${key}=${value}`),
      limit: limit ?? 1000,
    }
    return this.#pages('/v1/sessions', 'sessions', query, options, sessionInfo, signal)
  }

  async listSnapshots(
    options: CallOptions & { sessionId?: string; limit?: number; cursor?: string } = {},
  ): Promise<Page<SnapshotInfo>> {
    const { sessionId, limit, signal } = options
    const query = { session_id: sessionId, limit: limit ?? 1000 }
    return this.#pages('/v1/snapshots', 'snapshots', query, options, snapshotInfo, signal)
  }

  /** False when there is no such snapshot. Sessions created from it are not affected. */
  async deleteSnapshot(id: string, options: CallOptions = {}): Promise<boolean> {
    try {
      const path = `/v1/snapshots/${encodeURIComponent(id)}`
      return (await this.#http.json<{ deleted: boolean }>('DELETE', path, options)).deleted
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  /** Creates a folder that outlives sessions. Sessions mount it with `volumes`. Throws `conflict` if it exists. */
  async createVolume(name: string, options: CallOptions & { limitMb?: number } = {}): Promise<VolumeInfo> {
    checkKnown(options, ['limitMb', 'signal'], 'createVolume()')
    const { limitMb, signal } = options
    const json = { name, limit_mb: limitMb }
    return volumeInfo(await this.#http.json('POST', '/v1/volumes', { json, signal }))
  }

  /** Throws `not_found`. */
  async getVolume(name: string, options: CallOptions = {}): Promise<VolumeInfo> {
    return volumeInfo(await this.#http.json('GET', volumePath(name), options))
  }

  /** All volumes of the project, newest first, without their sizes; with `limit`, one page of them. */
  async listVolumes(
    options: CallOptions & { limit?: number; cursor?: string } = {},
  ): Promise<Page<VolumeInfo>> {
    const { limit, signal } = options
    return this.#pages('/v1/volumes', 'volumes', { limit: limit ?? 1000 }, options, volumeInfo, signal)
  }

  /** False when there is no such volume. Throws `conflict` while a session, even a stopped one, mounts it. */
  async deleteVolume(name: string, options: CallOptions = {}): Promise<boolean> {
    try {
      return (await this.#http.json<{ deleted: boolean }>('DELETE', volumePath(name), options)).deleted
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  /** The project's secrets, without their values. */
  async listSecrets(options: CallOptions = {}): Promise<SecretInfo[]> {
    return (await this.#http.json<{ secrets: [] }>('GET', '/v1/secrets', options)).secrets.map(secretInfo)
  }

  /** Creates a secret, or gives it a new value, which running sessions use at once. `hosts` limits where it is sent to. */
  async putSecret(
    name: string,
    value: string,
    options: CallOptions & { hosts?: readonly string[] } = {},
  ): Promise<SecretInfo> {
    const { hosts, signal } = options
    return secretInfo(await this.#http.json('PUT', secretPath(name), { json: { value, hosts }, signal }))
  }

  /** False when there is no such secret. */
  async deleteSecret(name: string, options: CallOptions = {}): Promise<boolean> {
    try {
      return (await this.#http.json<{ deleted: boolean }>('DELETE', secretPath(name), options)).deleted
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  /** What a session reached, and what it was refused; see `Session.egressEvents`. */
  egressEvents(sessionId: string, options: EgressEventsOptions = {}): AsyncGenerator<EgressEvent> {
    return this.session(sessionId).egressEvents(options)
  }

  /** What sessions of the project may use. */
  async getPolicy(projectId: string, options: CallOptions = {}): Promise<ProjectPolicy> {
    return projectPolicy(await this.#http.json('GET', policyPath(projectId), options))
  }

  /** Replaces the policy from the next create, start and fork on. Needs a key of the operator. `{}` removes it. */
  async setPolicy(projectId: string, policy: Policy, options: CallOptions = {}): Promise<ProjectPolicy> {
    const json = policyBody(policy)
    return projectPolicy(await this.#http.json('PUT', policyPath(projectId), { ...options, json }))
  }

  /** Events of the project; without `after`, only new ones. Throws `gone` when events after `after` were dropped. */
  async *events(
    options: CallOptions & { after?: number; sessionId?: string } = {},
  ): AsyncGenerator<SessionEvent> {
    const { after, sessionId, signal } = options
    const query = { after, session_id: sessionId }
    const response = await this.#http.send('GET', '/v1/events', { query, signal })
    for await (const { data } of serverEvents(response, signal)) yield sessionEvent(data)
  }

  /** Whether the daemon responds and accepts the key. */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    try {
      await this.#http.done('GET', '/readyz', options)
      await this.#http.done('GET', '/v1/sessions', { ...options, query: { limit: 1 } })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'aborted')) throw error
      return false
    }
  }

  async #pages<T>(
    path: string,
    field: string,
    query: Record<string, string | number | readonly string[] | undefined>,
    { limit, cursor }: { limit?: number; cursor?: string },
    convert: (wire: Record<string, unknown>) => T,
    signal: AbortSignal | undefined,
  ): Promise<Page<T>> {
    const page: Page<T> = []
    for (let at = cursor; ; ) {
      const answer = await this.#http.json<Record<string, unknown>>('GET', path, {
        query: { ...query, cursor: at },
        signal,
      })
      page.push(...(answer[field] as Array<Record<string, unknown>>).map(convert))
      at = answer.next_cursor as string | undefined
      if (limit !== undefined && at !== undefined) page.nextCursor = at
      if (limit !== undefined || at === undefined) return page
    }
  }
}

/** A name such as `..` would change the path of the request. */
function volumePath(name: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) return `/v1/volumes/${name}`
  throw new SandboxError('not_found', `There is no volume ${JSON.stringify(name)}.`, {
    hint: 'List volumes with listVolumes().',
  })
}

function secretPath(name: string): string {
  return `/v1/secrets/${segment(name, 'secret')}`
}

function policyPath(projectId: string): string {
  return `/v1/projects/${encodeURIComponent(projectId)}/policy`
}
