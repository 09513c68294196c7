import { randomUUID } from 'node:crypto'
import path from 'node:path'
import {
  type CreateSandboxOpts,
  SandboxError,
  type SandboxHandle,
  type SandboxProvider,
} from '@sandkasten/sdk'
import type { ChosenProvider, Context } from '../context.ts'
import { thisHolder } from '../leases/index.ts'
import { checkName, freeName } from '../names.ts'
import { checkThreadId, type ScopeColumns } from '../scope.ts'
import type { SandboxRow } from '../store/index.ts'
import type { CreateOptions, SandboxSettings, Scope } from '../types.ts'
import { request } from './deadline.ts'
import { sealEnvironment } from './environment.ts'
import { labelsOf, madeNothing, removeLeftovers } from './leftovers.ts'
import { checkCreateOptions, settingsOf } from './options.ts'
import { fillProject } from './project.ts'
import { bothFailed, reasonText } from './reason.ts'
import { type Made, type Run, retryMs, tell } from './run.ts'
import { observe } from './truth.ts'

/**
 * Creates a named sandbox.
 *
 *     check ─► row `creating`, leased ─► sandbox ─► its id in the row ─► clone or upload ─► row `running`
 *                   │ a failure: destroy the sandbox, then `failed` with the reason
 *                   │ this process dies: the next operation, or due work, destroys it by its labels
 */
export async function create(
  context: Context,
  scope: { readonly given: Scope; readonly columns: ScopeColumns },
  options: CreateOptions,
  signal: AbortSignal | undefined,
): Promise<Made> {
  if (options.name !== undefined) checkName(options.name)
  if (options.threadId !== undefined) checkThreadId(options.threadId)
  const chosen = await context.providers.choose(scope.given, options.provider)
  await checkCreateOptions(context, chosen.provider, options)
  signal?.throwIfAborted()
  const row = await insert(context, scope.columns, chosen, options)
  return context.leases.adopt(row, signal, (lease) =>
    build({ context, lease, onProgress: options.onProgress }, chosen.provider, options),
  )
}

/** Inserts the row under a free name. */
async function insert(
  context: Context,
  scope: ScopeColumns,
  chosen: ChosenProvider,
  options: CreateOptions,
): Promise<SandboxRow> {
  for (let tries = 0; ; tries += 1) {
    const name = options.name ?? freeName(await context.store.sandboxes.names(scope))
    try {
      return await context.secrets.storing(async () => {
        const row = await newRow(context, { scope, chosen, options, name })
        await context.store.sandboxes.insert(row, context.limits)
        return row
      })
    } catch (error) {
      // Another process took the free name meanwhile.
      if (options.name !== undefined || tries >= 10 || !SandboxError.is(error, 'conflict')) throw error
    }
  }
}

async function newRow(
  context: Context,
  {
    scope,
    chosen,
    options,
    name,
  }: { scope: ScopeColumns; chosen: ChosenProvider; options: CreateOptions; name: string },
): Promise<SandboxRow> {
  const id = randomUUID()
  const now = context.now()
  return {
    id,
    ...scope,
    name,
    live: 1,
    provider: chosen.provider.name,
    credentials_id: chosen.credentialsId,
    provider_sandbox_id: null,
    status: 'creating',
    error_message: null,
    incarnation: 0,
    base_url: null,
    snapshot_id: null,
    snapshot_at: null,
    snapshot_auto: 0,
    repo_url: options.repo ?? null,
    label: options.label ?? null,
    directory: null,
    settings: JSON.stringify(settingsOf(options) satisfies SandboxSettings),
    env: await sealEnvironment(context, id, options.envVars),
    opencode_password: null,
    expires_at: null,
    idle_stop_ms: options.idleStopMs ?? null,
    due_at: null,
    last_used_at: now,
    last_checked_at: null,
    created_at: now,
    updated_at: now,
    destroyed_at: null,
    lease_token: 1,
    lease_holder: await thisHolder(),
    lease_beat: 0,
    operation: 'create',
  }
}

async function build(run: Run, provider: SandboxProvider, options: CreateOptions): Promise<Made> {
  const { context, lease } = run
  const { name } = lease.row
  let handle: SandboxHandle | undefined
  try {
    tell(run, { step: 'create', message: `creating “${name}” at ${provider.name}` })
    const { snapshotId, envVars } = options
    handle = await createAt(run, provider, { ...settingsOf(options), snapshotId, envVars })
    await lease.update({ provider_sandbox_id: handle.sandboxId })
    const directory = await fillProject(run, handle, options)
    const { expiresAt } = await expectRunning(run, provider, handle)
    const now = context.now()
    const row = await lease.update({
      status: 'running',
      incarnation: 1,
      directory,
      settings: JSON.stringify({
        ...settingsOf(options),
        projectPath: path.posix.relative(handle.workdir, directory),
      } satisfies SandboxSettings),
      expires_at: expiresAt?.getTime() ?? null,
      last_checked_at: now,
      last_used_at: now,
    })
    if (options.threadId !== undefined) await context.store.threads.attach(row, options.threadId, row.id, now)
    tell(run, { step: 'done', message: `“${name}” is ready` })
    return { row, handle }
  } catch (error) {
    throw await undo(run, provider, { error, handle, secrets: secretsOf(options) })
  }
}

/** Creates the sandbox of the row, with the labels that find it again. One that arrives too late is destroyed. */
export async function createAt(
  run: Run,
  provider: SandboxProvider,
  options: CreateSandboxOpts,
): Promise<SandboxHandle> {
  const { context, lease } = run
  const { changeMs: ms, cleanUpMs: graceMs } = context.timeouts
  const can = (option: 'labels' | 'label') => provider.createOptions.has(option)
  const what = `Creating “${lease.row.name}” at ${provider.name}`
  return request(
    { ms, graceMs, signal: lease.signal, what },
    (signal) =>
      context.withSecretsOf(lease.row, () =>
        provider.create({
          ...options,
          ...(can('labels') && { labels: { ...options.labels, ...labelsOf(context, lease.row) } }),
          ...(can('label') && { label: lease.row.label ?? lease.row.name }),
          signal,
        }),
      ),
    (late) => late.destroy(),
  )
}

async function expectRunning(run: Run, provider: SandboxProvider, handle: SandboxHandle) {
  const { signal, row } = run.lease
  const { timeouts } = run.context
  const observed = await observe({ provider, sandboxId: handle.sandboxId, name: row.name, signal, timeouts })
  if (observed.status === 'running') return observed
  throw new SandboxError(
    'unavailable',
    `“${row.name}” ended while it was set up; its status is ${observed.status}.`,
    {
      provider: provider.name,
      hint: 'Try again; with a longer lifetimeMs if the set-up takes long.',
    },
  )
}

/** Removes what a failed create made, and leaves the reason in the row. Returns the error for the caller. */
async function undo(
  run: Run,
  provider: SandboxProvider,
  { error, handle, secrets }: { error: unknown; handle: SandboxHandle | undefined; secrets: string[] },
): Promise<unknown> {
  const { context, lease } = run
  const reason = reasonText(error, secrets)
  const now = context.now()
  try {
    if (handle !== undefined || !madeNothing(error)) {
      tell(run, { step: 'destroy', message: 'cleaning up' })
      const provider_sandbox_id = handle?.sandboxId ?? lease.row.provider_sandbox_id
      await removeLeftovers(context, provider, { ...lease.row, provider_sandbox_id })
    }
  } catch (cleanUp) {
    const left = `the sandbox ${handle?.sandboxId ?? ''} may still exist at ${provider.name}; it will be removed later.`
    const both = bothFailed(error, cleanUp, left.replace('  ', ' '))
    await lease
      .update({
        status: 'failed',
        provider_sandbox_id: handle?.sandboxId ?? null,
        error_message: reasonText(both, secrets),
        due_at: now + retryMs,
      })
      .catch(() => {})
    return both
  }
  // Refused arguments and a cancelled create explain themselves to the caller, and the name is free again.
  const isRefused = handle === undefined && SandboxError.is(error, 'invalid_argument', 'unsupported')
  if (isRefused || SandboxError.is(error, 'aborted')) {
    await lease.tombstone({ error_message: reason }).catch(() => {})
    return error
  }
  // The provider may still make what it did not answer for: look once more.
  const due_at = handle || madeNothing(error) ? null : now + retryMs
  await lease
    .update({ status: 'failed', provider_sandbox_id: null, error_message: reason, due_at })
    .catch(() => {})
  return error
}

function secretsOf({ gitToken, envVars }: CreateOptions): string[] {
  return [gitToken, ...Object.values(envVars ?? {})].filter((value) => value !== undefined)
}
