import { setTimeout as wait } from 'node:timers/promises'
import { type CreateOptions, freeName, type ProgressStep, type SandboxRecord } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { type Context, sandboxesOf } from '../context.ts'
import { readSettings } from '../settings.ts'
import type { SandboxChoice, SandboxOptions } from '../spec/threads.ts'
import type { ThreadRow } from '../store/index.ts'

export interface EnsureOptions {
  readonly token: number
  readonly signal: AbortSignal
  readonly onProgress: (step: ProgressStep) => void
}

/**
 * The sandbox of the thread, by its present name. A thread without one gets it here:
 *
 *     name in the thread’s row ─► registry.create with a label of the thread ─► attached ─► `ready`
 *
 * The name is stored first, so a process that continues after a crash finds by name and label what was made before.
 */
export async function ensureSandbox(
  context: Context,
  thread: ThreadRow,
  options: EnsureOptions,
): Promise<SandboxRecord> {
  const sandboxes = sandboxesOf(context, thread)
  const attached = await sandboxes.ofThread(thread.thread_id)
  const isReady = thread.state === 'ready' || thread.state === 'archived'
  if (isReady) {
    if (attached) return attached
    throw new SandboxError('not_found', 'The sandbox of this thread was destroyed.', {
      hint: 'Connect the thread to another sandbox, or begin a new thread.',
    })
  }
  const choice = JSON.parse(thread.choice) as SandboxChoice
  const name =
    'existing' in choice
      ? choice.existing
      : await made(context, thread, await recipeOf(context, thread, choice, options), options)
  const record = await sandboxes.attach(thread.thread_id, name)
  const changes = { state: 'ready' as const, sandbox: name, error_message: null, error_hint: null, due: 0 }
  const { token } = options
  const isOpen = await context.store.threads.update(thread.thread_id, changes, context.now(), {
    token,
    from: ['pending', 'failed', 'ready'],
  })
  if (!isOpen) throw new SandboxError('aborted', 'The conversation has ended.')
  return record
}

/** What the registry shows as the label of a sandbox that was made for this thread. */
export function labelOf({ thread_id }: Pick<ThreadRow, 'thread_id'>): string {
  return `thread ${thread_id}`
}

type Recipe = SandboxOptions & Pick<CreateOptions, 'name' | 'provider' | 'repo' | 'snapshotId'>

async function recipeOf(
  context: Context,
  thread: ThreadRow,
  choice: Exclude<SandboxChoice, { existing: string }>,
  { token, signal, onProgress }: EnsureOptions,
): Promise<Recipe> {
  const { store, sandboxDefaults } = context
  if ('create' in choice) return { ...sandboxDefaults, ...choice.create }
  const source = await store.threads.get(choice.fork)
  const sandboxes = sandboxesOf(context, thread)
  const record = source && (await sandboxes.ofThread(source.thread_id))
  if (!source || !record)
    throw new SandboxError('not_found', 'The thread to continue from has no sandbox any more.', {
      hint: 'Begin a new thread.',
    })
  const { image: _, ...defaults } = sandboxDefaults
  const { provider, network } = record
  const recipe = { ...defaults, provider, ...(network !== undefined && { network }) }
  if (thread.fork_snapshot !== null) return { ...recipe, snapshotId: thread.fork_snapshot }
  const { snapshotId } = await sandboxes.snapshot(record.name, { signal, onProgress })
  const { mode, directory, base_commit, model } = source
  const session_id = mode === 'inside' ? source.session_id : null
  const copied = { fork_snapshot: snapshotId, mode, directory, base_commit, session_id }
  await store.threads.update(thread.thread_id, { ...copied, model: thread.model ?? model }, context.now(), {
    token,
  })
  return { ...recipe, snapshotId }
}

const mostTries = 5

/** Creates the sandbox, or finds the one that an earlier try has made. Returns its name. */
async function made(
  context: Context,
  thread: ThreadRow,
  recipe: Recipe,
  { token, signal, onProgress }: EnsureOptions,
): Promise<string> {
  const sandboxes = sandboxesOf(context, thread)
  const find = async (name: string) => {
    try {
      return await sandboxes.get(name, { signal })
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    }
  }
  const choose = async (): Promise<string> => {
    const all = await sandboxes.list({ signal })
    const name = recipe.name ?? freeName(all.map((record) => record.name))
    const { sandboxes: most } = await readSettings(context, thread.guild_id, thread.channel_id)
    if (most !== undefined && all.filter(({ status }) => status !== 'failed').length >= most)
      throw new SandboxError('quota_exceeded', `There are already ${most} sandboxes here.`, {
        hint: 'Destroy sandboxes that are not needed.',
      })
    await context.store.threads.update(thread.thread_id, { sandbox: name }, context.now(), { token })
    return name
  }
  let name = thread.sandbox ?? (await choose())
  let network = recipe.network ?? context.agentNetwork
  for (let tries = 1; ; tries += 1) {
    const found = await find(name)
    const isOurs = found?.label === labelOf(thread)
    if (found && isOurs && (await isUsable(context, thread, found, { signal, onProgress }))) return name
    try {
      const options = {
        ...recipe,
        ...(network !== undefined && { network }),
        name,
        label: labelOf(thread),
        threadId: thread.thread_id,
        signal,
        onProgress,
      }
      return (await sandboxes.create(options)).record.name
    } catch (error) {
      if (network !== recipe.network && isAboutNetwork(error)) {
        network = recipe.network
        continue
      }
      const isTaken = SandboxError.is(error, 'conflict') && error.details.name === name
      if (!isTaken || tries >= mostTries) throw error
      // After a crash, due work may just be removing what the earlier try has left under this name.
      if ((await find(name))?.label === labelOf(thread))
        await wait(context.retryMs * 2 ** tries, undefined, { signal })
      else if (recipe.name !== undefined) throw error
      else name = await choose()
    }
  }
}

/** The provider cannot enforce the network, and has created nothing. */
function isAboutNetwork(error: unknown): boolean {
  if (!SandboxError.is(error, 'unsupported')) return false
  const { option, ability } = (error.details ?? {}) as Record<string, unknown>
  return option === 'network' || ability === 'egress'
}

/** Whether an earlier try has made the sandbox. What a dead process did not finish is finished or removed here. */
async function isUsable(
  context: Context,
  thread: ThreadRow,
  record: SandboxRecord,
  options: Omit<EnsureOptions, 'token'>,
): Promise<boolean> {
  if (record.status === 'failed' && record.providerSandboxId === undefined) return false
  const sandboxes = sandboxesOf(context, thread)
  try {
    await sandboxes.resume(record.name, options)
    return true
  } catch (error) {
    if (options.signal.aborted) throw error
    const after = await sandboxes.get(record.name)
    if (after.status !== 'failed') throw error
    // A failed create that may have left something: the registry destroys it first.
    await sandboxes.destroy(record.name, { force: true, ...options })
    return false
  }
}
