import type { Hold } from '@sandkasten/registry'
import { type Context, sandboxesOf } from '../context.ts'
import type { ThreadAgent } from '../spec/agent.ts'
import type { ThreadServices } from '../spec/agents.ts'
import type { SandboxChoice } from '../spec/threads.ts'
import type { ThreadRow } from '../store/index.ts'
import { ensureSandbox, labelOf } from './sandbox.ts'
import type { Steps } from './steps.ts'

/** The agent of a thread in its running sandbox, which is held until this is closed. */
export interface Live extends AsyncDisposable {
  readonly hold: Hold
  readonly agent: ThreadAgent
  /** The folder of the thread in the sandbox. */
  readonly directory: string
}

export interface OpenLiveOptions {
  readonly token: number
  readonly signal: AbortSignal
  readonly steps: Steps
  readonly services: ThreadServices
}

/** Makes or resumes the sandbox, and opens the agent. */
export async function openLive(
  context: Context,
  threadId: string,
  { token, signal, steps, services }: OpenLiveOptions,
): Promise<Live> {
  const before = (await context.store.threads.get(threadId))!
  const { progress: onProgress } = steps
  const record = await ensureSandbox(context, before, { token, signal, onProgress })
  // A fork has its session since then.
  const thread = (await context.store.threads.get(threadId))!
  const sandboxes = sandboxesOf(context, thread)
  let isRestored = false
  const hold = await sandboxes.hold(record.name, {
    threadId,
    purpose: 'agent',
    signal,
    onProgress: (step) => {
      isRestored ||= step.step === 'restore'
      onProgress(step)
    },
  })
  try {
    await noteIncarnation(context, thread, hold, isRestored)
    const agent = await context.agents.open(
      {
        threadId,
        title: thread.title,
        hold,
        sandboxes,
        mode: thread.mode ?? undefined,
        sessionId: thread.session_id ?? undefined,
        directory: thread.directory ?? undefined,
        forkOf: await forkOf(context, thread),
        model: thread.model ?? undefined,
        isShared: record.label !== labelOf(thread) && record.threads.some((other) => other !== threadId),
        services,
      },
      { signal: AbortSignal.any([signal, hold.signal]), onStep: (text) => steps.begin(text) },
    )
    // The folder of an agent at home is on this machine.
    const directory =
      agent.mode === 'inside' ? agent.directory : (hold.record.directory ?? hold.handle.workdir)
    const changes = {
      sandbox: hold.record.name,
      mode: agent.mode,
      session_id: agent.sessionId,
      directory,
      incarnation: hold.incarnation,
      base_commit: thread.base_commit ?? (await headOf(hold, directory, signal)),
    }
    await context.store.threads.update(threadId, changes, context.now(), { token })
    return {
      hold,
      agent,
      directory,
      async [Symbol.asyncDispose]() {
        try {
          await agent[Symbol.asyncDispose]()
        } finally {
          await hold.release()
        }
      },
    }
  } catch (error) {
    await hold.release()
    throw error
  }
}

async function forkOf({ store }: Context, thread: ThreadRow) {
  const choice = JSON.parse(thread.choice) as SandboxChoice
  if (!('fork' in choice) || thread.session_id !== null) return undefined
  const source = await store.threads.get(choice.fork)
  if (!source?.session_id || !source.mode) return undefined
  return { sessionId: source.session_id, mode: source.mode }
}

/** Processes end with the sandbox, and users should know. */
async function noteIncarnation(
  { store, now }: Context,
  thread: ThreadRow,
  { record, incarnation }: Hold,
  isRestored: boolean,
): Promise<void> {
  if (thread.incarnation === null || thread.incarnation === incarnation || thread.sandbox !== record.name)
    return
  await store.notices.put({
    thread_id: thread.thread_id,
    notice_key: `incarnation:${record.id}:${incarnation}`,
    level: 'warning',
    text: isRestored
      ? `“${record.name}” was restored from its last snapshot: its processes are gone, and so are changes after it.`
      : `“${record.name}” was started again: its processes are gone, and its files are still there.`,
    created_at: now(),
  })
}

/** The commit that the thread starts from. Null: the folder is no repository, or has no commit. */
async function headOf({ handle }: Hold, cwd: string, signal: AbortSignal): Promise<string | null> {
  // Through a shell: without git, that is an exit code.
  const args = ['-c', 'git rev-parse -q --verify HEAD']
  const { exitCode, stdout } = await handle.runCommand({ cmd: 'sh', args, cwd, signal, timeoutMs: 30_000 })
  const commit = stdout.trim()
  return exitCode === 0 && /^[0-9a-f]{40,64}$/.test(commit) ? commit : null
}
