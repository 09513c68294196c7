import { createHash } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import type { Caller } from '../keys/index.ts'
import type { SnapshotRow } from '../store/index.ts'
import { type Context, instanceLabel, type Sandbox, type Session, sessionLabel } from './context.ts'
import {
  leasesUnder,
  mayUsePool,
  type Rules,
  refuseBeyond,
  refuseHosts,
  rulesOf,
  wishedBy,
} from './limits/policy.ts'
import { quotaCheck } from './limits/quotas.ts'
import { checkSecrets, modeOf, networkColumns, secretUses } from './network/policy.ts'
import { type CreateRequest, createOptions, type Plan, planOf } from './plan.ts'
import { withRuntimeImage } from './runtime.ts'
import { inherit } from './snapshot-settings.ts'
import { mark } from './status.ts'
import { mountsOf, translateVolumeError, volumeCheck, volumesFor } from './volumes/mounts.ts'

/**
 * Creates sessions. The row is written before any client learns of the session, and the sandbox carries the session's
 * label. So after a crash, a row in `creating`, or a sandbox whose label names no row, belongs to a create that no
 * client learned of, and is undone.
 */
export class Creator {
  readonly #context: Context
  /** Creates in progress, by idempotency key. */
  readonly #pending = new Map<string, Promise<Session>>()

  constructor(context: Context) {
    this.#context = context
  }

  async create(caller: Caller, asked: CreateRequest, signal?: AbortSignal): Promise<Created> {
    const { store, provider } = this.#context
    const rules = await rulesOf(this.#context, caller)
    const under = { config: rules, provider, store }
    const chosen = await withRuntimeImage(under, asked)
    const saved = await this.#snapshot(caller, asked.snapshotId)
    const { network, ...settings } = chosen
    refuseBeyond(rules, {
      ...settings,
      ...chosen.limits,
      // A default does not fit when the policy leaves nothing that the configuration allows.
      image: saved?.image ?? chosen.image ?? rules.default_image,
      network: modeOf(network ?? rules.defaults.network_mode),
    })
    const { request, notes } = saved ? await inherit(under, chosen, saved) : { request: chosen, notes: [] }
    const plan = saved
      ? { ...planOf(under, { ...request, image: undefined }), image: saved.image }
      : planOf(under, request)
    refuseHosts(rules.policy, plan.network)
    if (secretUses(plan.network).size > 0)
      checkSecrets(plan.network, await this.#context.secrets.known(caller))
    const snapshot = saved?.provider_id
    const check = await quotaCheck(this.#context, caller, { ...plan, sessions: 1 })
    const volumes = await volumesFor(this.#context, caller, request.volumes)
    const row = { ...this.#row(caller, request, plan), volumes: JSON.stringify(volumes) }
    const given = { caller, env: request.env ?? {}, snapshot, signal, rules }
    const holds = volumeCheck(row)
    // The provider may ask for secrets of the session before the create is done, so its row is written first.
    const known = typeof plan.network === 'object'
    if (!check && !holds && !known && request.name === undefined && request.idempotencyKey === undefined)
      return { session: await this.#pend(row, plan, { ...given, unwritten: true }), repeat: false, notes }
    const { idempotencyKey } = request
    const fingerprint = fingerprintOf(asked)
    const inserted = await store.sessions.insert(row, {
      check,
      volumes: holds,
      idempotency:
        idempotencyKey === undefined
          ? undefined
          : {
              project_id: caller.projectId,
              key: idempotencyKey,
              fingerprint,
              session_id: row.id,
              created_at: row.created_at,
            },
    })
    if (inserted.kind === 'name-taken') throw nameTaken(request.name)
    if (inserted.kind === 'repeat') {
      if (inserted.fingerprint !== fingerprint)
        throw new SandboxError('conflict', 'This idempotency key was used for a different request.', {
          hint: 'Use a new key for each session.',
        })
      return { session: await this.#earlier(inserted.sessionId), repeat: true, notes: [] }
    }
    return { session: await this.#pend(row, plan, given), repeat: false, notes }
  }

  async #pend(row: Session, plan: Plan, given: Given): Promise<Session> {
    const making = this.#context.live.locked(row.id, () => this.#make(row, plan, given))
    this.#pending.set(row.id, making)
    try {
      return await making
    } finally {
      this.#pending.delete(row.id)
    }
  }

  /** Whether this process is creating the session now. */
  isPending(id: string): boolean {
    return this.#pending.has(id)
  }

  /**
   * Creates copies of a session. One transaction checks the quotas and writes all rows. Then `make` creates a sandbox for
   * each row. A copy that failed is returned as its error, at its position.
   */
  async fork(
    caller: Caller,
    origin: Session,
    names: ReadonlyArray<string | undefined>,
    make: (count: number) => Promise<Array<Sandbox | Error>>,
  ): Promise<Array<Session | Error>> {
    const { store } = this.#context
    const rules = await rulesOf(this.#context, caller)
    refuseBeyond(rules, wishedBy(origin))
    const check = await quotaCheck(this.#context, caller, {
      sessions: names.length,
      cpu: origin.cpu * names.length,
      memoryMb: origin.mem_mb * names.length,
      diskMb: origin.disk_mb,
    })
    const rows = names.map((name): Session => {
      const own = { ...fresh(caller, Date.now()), name: name ?? null, sandbox_id: null, cwd: null }
      return { ...origin, ...leasesUnder(rules, origin), ...own }
    })
    const { promise, resolve } = Promise.withResolvers<Session>()
    // Reconciliation removes rows without a sandbox unless their create is pending.
    for (const { id } of rows) this.#pending.set(id, promise)
    try {
      const inserted = await store.sessions.insertAll(rows, { check, volumes: volumeCheck(origin) })
      const free = rows.filter(({ id }) => inserted.has(id))
      const copies = await make(free.length).catch(async (error) => {
        for (const row of free) await this.#undo(row, undefined, error)
        throw error
      })
      const made = await Promise.all(free.map((row, at) => this.#adopt(caller, origin, row, copies[at]!)))
      return rows.map((row) => made[free.indexOf(row)] ?? nameTaken(row.name ?? undefined))
    } finally {
      for (const { id } of rows) this.#pending.delete(id)
      resolve(origin)
    }
  }

  async #adopt(
    caller: Caller,
    origin: Session,
    row: Session,
    copy: Sandbox | Error,
  ): Promise<Session | Error> {
    const sandbox = copy instanceof Error ? undefined : copy
    try {
      if (copy instanceof Error) throw copy
      const how = { by: `key:${caller.keyId}`, reason: `forked from ${origin.id}` }
      const changes = { sandbox_id: copy.sandboxId }
      const session = await mark(this.#context, row, 'running', { ...how, from: ['creating'], changes })
      if (!session) throw new SandboxError('conflict', `The session ${row.id} was ended during its create.`)
      return session
    } catch (error) {
      await this.#undo(row, sandbox, error)
      return error as Error
    }
  }

  async #make(row: Session, plan: Plan, given: Given): Promise<Session> {
    const { live, log, metrics } = this.#context
    const startedAt = performance.now()
    let sandbox: Sandbox | undefined
    try {
      const making = this.#sandbox(row, plan, given)
      const writing = given.unwritten ? this.#write(row) : undefined
      const [made, written] = await Promise.allSettled([making, writing])
      if (made.status === 'fulfilled') sandbox = made.value.sandbox
      if (written.status === 'rejected') throw written.reason
      if (made.status === 'rejected') throw made.reason
      const { pooled } = made.value
      sandbox = made.value.sandbox
      const sandboxMs = performance.now() - startedAt
      const session = await mark(this.#context, row, 'running', {
        by: row.status_by,
        reason: 'created',
        from: ['creating'],
        changes: {
          sandbox_id: sandbox.sandboxId,
          workdir: sandbox.workdir,
          writable_paths: sandbox.writablePaths ? JSON.stringify(sandbox.writablePaths) : null,
          started_at: Date.now(),
          last_activity: Date.now(),
        },
      })
      if (!session) throw new SandboxError('conflict', `The session ${row.id} was ended during its create.`)
      live.open(row.id, row.incarnation, sandbox)
      const totalMs = performance.now() - startedAt
      metrics.observe('sandkasten_session_create_seconds', {}, totalMs / 1000)
      const steps = { sandboxMs, rowMs: totalMs - sandboxMs }
      log.info(
        { session: row.id, request: given.caller.requestId, image: row.image, pooled, steps },
        'session created',
      )
      return session
    } catch (error) {
      await this.#undo(row, sandbox, error)
      throw translateVolumeError(row, error)
    }
  }

  async #sandbox(
    row: Session,
    plan: Plan,
    { env, snapshot, signal, rules }: Given,
  ): Promise<{ sandbox: Sandbox; pooled: boolean }> {
    const { provider, instanceId, pool } = this.#context
    const labels = { [sessionLabel]: row.id, [instanceLabel]: instanceId }
    const volumes = mountsOf(row)
    const poolable = snapshot === undefined && volumes.length === 0 && mayUsePool(rules, plan.image)
    const kept = poolable ? await pool.take(plan, { labels, envVars: env }) : undefined
    if (kept) return { sandbox: kept, pooled: true }
    const options = createOptions(this.#context, plan, { env, labels, providerSnapshot: snapshot, volumes })
    return { sandbox: (await provider.create({ ...options, signal })) as Sandbox, pooled: false }
  }

  /** For rows that the store cannot refuse: writes the row while the sandbox is created. */
  async #write(row: Session): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    await this.#context.store.sessions.insert(row)
  }

  /** Removes everything but a row with the reason. If that fails, reconciliation retries. */
  async #undo(row: Session, sandbox: Sandbox | undefined, error: unknown): Promise<void> {
    const { store, log } = this.#context
    try {
      await sandbox?.destroy()
      const reason = SandboxError.is(error) ? error.code : 'internal'
      await mark(this.#context, row, 'failed', { by: 'daemon', reason, from: ['creating'] })
      await store.sessions.forgetIdempotency(row.id)
    } catch (cleanUp) {
      log.warn({ session: row.id, err: cleanUp }, 'cannot undo a failed create; reconciliation will retry')
    }
  }

  async #earlier(id: string): Promise<Session> {
    const pending = this.#pending.get(id)
    if (pending) return pending
    const session = await this.#context.store.sessions.get(id)
    if (session && session.status !== 'creating') return session
    throw new SandboxError('conflict', 'A create with this idempotency key is still in progress.', {
      hint: 'Try again in a moment.',
    })
  }

  async #snapshot(caller: Caller, id: string | undefined): Promise<SnapshotRow | undefined> {
    if (id === undefined) return undefined
    const { store, instanceId } = this.#context
    const row = await store.snapshots.get(caller.projectId, id)
    if (row?.instance_id === instanceId) return row
    throw new SandboxError('not_found', `There is no snapshot ${id}.`, {
      hint: {
        sdk: 'See listSnapshots().',
        http: 'See GET /v1/snapshots.',
        cli: 'See sandkasten snapshot list.',
      },
    })
  }

  #row(caller: Caller, request: CreateRequest, plan: Plan): Session {
    return {
      ...fresh(caller, Date.now()),
      instance_id: this.#context.instanceId,
      name: request.name ?? null,
      sandbox_id: null,
      image: plan.image,
      labels: sortedJson(request.labels ?? {}),
      env_names: JSON.stringify(Object.keys(request.env ?? {}).sort()),
      workdir: null,
      cwd: null,
      cpu: plan.cpu,
      mem_mb: plan.memoryMb,
      disk_mb: plan.diskMb,
      pids: plan.pids,
      ...networkColumns(plan.network),
      ttl_ms: plan.ttlMs,
      on_idle: plan.onIdle,
      lifetime_ms: plan.lifetimeMs,
      on_lifetime: plan.onLifetime,
      stopped_ttl_ms: request.stoppedTtlMs ?? null,
      wake_on_use: plan.wakeOnUse ? 1 : 0,
      run_user: plan.user ?? null,
      writable_paths: null,
      snapshot_id: request.snapshotId ?? null,
      volumes: '[]',
    }
  }
}

export interface Created {
  readonly session: Session
  /** The session was created before, with the same idempotency key. */
  readonly repeat: boolean
  /** Settings that a session could not inherit from its snapshot's origin. */
  readonly notes: readonly string[]
}

interface Given {
  readonly caller: Caller
  readonly env: Readonly<Record<string, string>>
  readonly snapshot?: string
  readonly signal?: AbortSignal
  readonly rules: Rules
  /** The row is not in the store yet. */
  readonly unwritten?: boolean
}

function fresh(caller: Caller, now: number) {
  return {
    id: randomId(),
    project_id: caller.projectId,
    key_id: caller.keyId,
    subject: caller.subject ?? null,
    status: 'creating' as const,
    status_reason: '',
    status_by: `key:${caller.keyId}`,
    status_at: now,
    incarnation: 1,
    created_at: now,
    started_at: now,
    last_activity: now,
    live: 1,
    starting: 0,
  }
}

function nameTaken(name: string | undefined): SandboxError {
  return new SandboxError('conflict', `A session with the name “${name}” already exists.`, {
    details: { name },
    hint: {
      sdk: 'Choose another name, or find it with listSessions({ name }).',
      http: 'Choose another name, or find it with GET /v1/sessions?name=.',
      cli: 'Choose another name, or use that session: the name works wherever an id does.',
    },
  })
}

/** Identifies equal requests. Hashed, because environments hold secrets. */
function fingerprintOf({ idempotencyKey: _, ...request }: CreateRequest): string {
  return createHash('sha256').update(sortedJson(request)).digest('hex')
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}
