import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Scope } from '@sandkasten/registry'
import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import { Audit } from './audit.ts'
import { type Context, sandboxesOf } from './context.ts'
import { isEnd } from './conversations/answers.ts'
import { checkReply } from './conversations/questions.ts'
import { diff, pull } from './folder/changes.ts'
import { shell } from './folder/shell.ts'
import { url } from './folder/url.ts'
import { Lanes } from './lanes.ts'
import { connect } from './lifecycle/connect.ts'
import { SandboxOperations } from './lifecycle/sandboxes.ts'
import { getProviderForChannel, readSettings, settingsText } from './settings.ts'
import type { AgentModel, AgentReply } from './spec/agent.ts'
import type { ChatFile, Posts, Question } from './spec/chat.ts'
import type { Settings, SettingsPlace } from './spec/rights.ts'
import type {
  Actor,
  AuditEntry,
  NewThread,
  SavedAuditEntry,
  ShellResult,
  Thread,
  Threads,
  UserMessage,
} from './spec/threads.ts'
import { type NewTurn, type ThreadRow, toJson } from './store/index.ts'
import { threadOf } from './thread.ts'
import type { Worker } from './worker/worker.ts'

/** How long an agent may take to let go of its sandbox after an answer. */
const settleMs = 10_000

/** The public face. It writes what users want; conversations do it. See `open-threads.ts` for its parts. */
export class Engine implements Threads {
  readonly #context: Context
  readonly #worker: Worker
  readonly #operations: SandboxOperations
  readonly #audit: Audit
  readonly #lanes = new Lanes()
  readonly #end: () => Promise<void>

  constructor(context: Context, worker: Worker, end: () => Promise<void>) {
    this.#context = context
    this.#worker = worker
    this.#operations = new SandboxOperations(context)
    this.#audit = new Audit(context)
    this.#end = end
  }

  get posts(): Posts {
    return this.#context.store.posts
  }

  async start(): Promise<void> {
    this.#worker.start()
  }

  async close(): Promise<void> {
    await this.#worker.close()
    await this.#end()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  begin(given: NewThread): Promise<Thread> {
    return this.#lanes.run(given.threadId, async () => {
      const { store } = this.#context
      const row = await this.#newRow(given)
      const target = toJson(given.sandbox).slice(0, 300)
      const entry = { by: given.by, action: 'begin', ...placeOf(row), threadId: row.thread_id, target }
      const turn = given.message && (await this.#newTurn({ ...given.message, threadId: given.threadId }))
      const { row: stored, isNew } = await this.#audit.of(entry, async () => {
        const { threadsPerUser } = await readSettings(this.#context, row.guild_id, row.channel_id)
        const { limits } = this.#context
        const perUser = threadsPerUser ?? limits.threadsPerUser
        // Without a message, the sandbox is made for its own sake.
        return store.threads.insert(
          { ...row, due: turn ? 0 : 1 },
          { perUser, perGuild: limits.threadsPerGuild },
          turn,
        )
      })
      if (!isNew && turn) await this.#insert(turn)
      this.#wake(given.threadId)
      return threadOf(this.#context, stored)
    })
  }

  async say(message: UserMessage): Promise<'started' | 'queued' | 'known' | 'unknown-thread'> {
    const result = await this.#lanes.run(message.threadId, () => this.#store(message))
    if (result === 'known' || result === 'unknown-thread') return result
    this.#wake(message.threadId)
    return result === 'first' ? 'started' : 'queued'
  }

  async get(threadId: string): Promise<Thread | undefined> {
    const row = await this.#context.store.threads.get(threadId)
    return row && threadOf(this.#context, row)
  }

  async list(options: { channelId?: string; sandbox?: string } = {}): Promise<readonly Thread[]> {
    const rows = await this.#context.store.threads.list(options)
    return Promise.all(rows.map((row) => threadOf(this.#context, row)))
  }

  abort(threadId: string, by: Actor): Promise<boolean> {
    return this.#inThread(threadId, { by, action: 'abort' }, async () => {
      const count = await this.#context.store.turns.abort(threadId)
      await this.#refresh(threadId)
      return count > 0
    })
  }

  cancel(threadId: string, by: Actor): Promise<boolean> {
    return this.#inThread(threadId, { by, action: 'cancel' }, async () => {
      const { store, now } = this.#context
      const from = ['pending', 'failed'] as const
      if (!(await store.threads.update(threadId, { state: 'ended', due: 1 }, now(), { from }))) return false
      await store.schedules.removeOf(threadId)
      await store.turns.abort(threadId)
      await this.#interrupt(threadId)
      return true
    })
  }

  async reply(questionId: string, given: AgentReply, by: Actor): Promise<boolean> {
    const { questions } = this.#context.store
    const row = await questions.get(questionId)
    if (!row) return false
    const { reply, outcome } = checkReply(JSON.parse(row.question) as Question, given)
    return this.#inThread(row.thread_id, { by, action: 'reply', target: outcome }, async () => {
      if (!(await questions.answer(questionId, toJson(reply), `${by.name}: ${outcome}`))) return false
      await this.#refresh(row.thread_id)
      return true
    })
  }

  setModel(threadId: string, model: string | undefined, by: Actor): Promise<void> {
    return this.#inThread(threadId, { by, action: 'model', target: model }, async () => {
      await this.#context.store.threads.update(threadId, { model: model ?? null }, this.#context.now())
    })
  }

  async models(threadId: string): Promise<readonly AgentModel[]> {
    const conversation = this.#worker.conversation(threadId)
    if (!conversation)
      throw new SandboxError('unavailable', 'The models are known by the process that works for this thread.')
    return conversation.models()
  }

  connect(threadId: string, sandbox: string, by: Actor): Promise<void> {
    return this.#inThread(threadId, { by, action: 'connect', target: sandbox }, () =>
      connect(this.#context, threadId, sandbox),
    )
  }

  shell(threadId: string, command: string, by: Actor, options?: CallOptions): Promise<ShellResult> {
    return this.#inThread(threadId, { by, action: 'shell', target: command }, () =>
      shell(this.#context, threadId, command, options),
    )
  }

  diff(threadId: string, by: Actor, options?: CallOptions): Promise<string> {
    return this.#inThread(threadId, { by, action: 'diff' }, () => diff(this.#context, threadId, options))
  }

  pull(threadId: string, as: 'patch' | 'branch', by: Actor, options?: CallOptions): Promise<ChatFile> {
    return this.#inThread(threadId, { by, action: 'pull', target: as }, () =>
      pull(this.#context, threadId, as, options),
    )
  }

  url(threadId: string, port: number, by: Actor, options?: CallOptions): Promise<string> {
    return this.#inThread(threadId, { by, action: 'url', target: String(port) }, () =>
      url(this.#context, threadId, port, options),
    )
  }

  sandboxes(scope: Scope, options?: { refresh?: boolean }) {
    return this.#operations.list(scope, options)
  }

  stop(scope: Scope, sandbox: string, by: Actor) {
    return this.#onSandbox('stop', scope, sandbox, by, () =>
      this.#operations.stop(scope, sandbox, (threadId) => this.#settled(threadId)),
    )
  }

  startSandbox(scope: Scope, sandbox: string, by: Actor) {
    return this.#onSandbox('start', scope, sandbox, by, () => this.#operations.start(scope, sandbox))
  }

  snapshot(scope: Scope, sandbox: string, by: Actor) {
    return this.#onSandbox('snapshot', scope, sandbox, by, () => this.#operations.snapshot(scope, sandbox))
  }

  destroy(scope: Scope, sandbox: string, by: Actor) {
    return this.#onSandbox('destroy', scope, sandbox, by, () =>
      this.#operations.destroy(scope, sandbox, async (threadId) => {
        await this.#context.store.turns.abort(threadId)
        await this.#refresh(threadId)
      }),
    )
  }

  async archived(threadId: string): Promise<void> {
    const { store, now } = this.#context
    // While an answer is written, the thread stays open: the answer opens it in the chat as well.
    if ((await store.turns.open(threadId)).length > 0) return
    const from = ['pending', 'ready', 'failed'] as const
    if (await store.threads.update(threadId, { state: 'archived', due: 1 }, now(), { from }))
      this.#wake(threadId)
  }

  async unarchived(threadId: string): Promise<void> {
    await this.#unarchive(threadId)
  }

  async deleted(threadId: string): Promise<void> {
    const { store, now } = this.#context
    const from = ['pending', 'ready', 'failed', 'archived'] as const
    if (!(await store.threads.update(threadId, { state: 'ended', due: 1 }, now(), { from }))) return
    await store.schedules.removeOf(threadId)
    await store.turns.drop(threadId, now())
    await this.#interrupt(threadId)
  }

  async channelDeleted(channelId: string): Promise<void> {
    for (const { thread_id } of await this.#context.store.threads.list({ channelId }))
      await this.deleted(thread_id)
  }

  settings({ guildId = '', channelId }: SettingsPlace): Promise<Settings> {
    return readSettings(this.#context, guildId, channelId)
  }

  async saveSettings(place: SettingsPlace, settings: Settings, by: Actor): Promise<void> {
    const { guildId = '', channelId = '' } = place
    const text = settingsText(settings)
    await this.#audit.of({ by, action: 'settings', ...place, target: text.slice(0, 400) }, () =>
      this.#context.store.settings.put(guildId, channelId, text, this.#context.now()),
    )
  }

  getProviderForChannel(channelId: string, guildId?: string): Promise<string | undefined> {
    return getProviderForChannel(this.#context, channelId, guildId)
  }

  audit(entry: AuditEntry): Promise<void> {
    return this.#audit.add(entry)
  }

  auditLog(
    place: SettingsPlace,
    { limit = 100 }: { limit?: number } = {},
  ): Promise<readonly SavedAuditEntry[]> {
    return this.#audit.list(place, Math.min(limit, 1_000))
  }

  /** Stores a message with its attachments. */
  async #store(message: UserMessage): Promise<'first' | 'queued' | 'known' | 'unknown-thread'> {
    const { store } = this.#context
    const { id, threadId } = message
    const thread = await store.threads.get(threadId)
    if (!thread || thread.state === 'ended') return 'unknown-thread'
    if (await store.turns.has(threadId, id)) return 'known'
    if (thread.state === 'archived') await this.#unarchive(threadId)
    return this.#insert(await this.#newTurn(message))
  }

  async #insert(turn: NewTurn): Promise<'first' | 'queued' | 'known' | 'unknown-thread'> {
    const { store, spool, limits } = this.#context
    const result = await store.turns.insert(turn, limits.queuedMessages).catch(async (error: unknown) => {
      await spool.remove(turn.id)
      throw error
    })
    if (result === 'known' || result === 'unknown-thread') await spool.remove(turn.id)
    return result
  }

  /** The row of a message whose attachments are in the spool. */
  async #newTurn({ id: messageId, threadId, by, text, attachments = [] }: UserMessage): Promise<NewTurn> {
    const { spool, limits, now } = this.#context
    if (Buffer.byteLength(text) > limits.messageBytes)
      throw new SandboxError('invalid_argument', `The message is longer than ${limits.messageBytes} bytes.`, {
        hint: 'Send it as a file.',
      })
    const id = randomUUID()
    const files = await spool.save(id, attachments, {})
    return {
      ...{ id, thread_id: threadId, message_id: messageId, state: 'queued', is_final: 0, is_aborted: 0 },
      ...{ text, files: toJson(files), by_id: by.id, by_name: by.name, agent_message_id: null },
      ...{ ending: null, model: null, cost_micro_usd: null },
      ...{ created_at: now(), started_at: null, ended_at: null },
    }
  }

  async #newRow(given: NewThread): Promise<Omit<ThreadRow, 'app_id'>> {
    const { threadId, channelId, guildId = '', title, by, model, mode, sandbox } = given
    const settings = await readSettings(this.#context, guildId, channelId)
    const now = this.#context.now()
    const provider = async () => this.getProviderForChannel(channelId, guildId)
    const choice =
      'create' in sandbox
        ? { create: { ...sandbox.create, provider: sandbox.create.provider ?? (await provider()) } }
        : sandbox
    return {
      ...{ thread_id: threadId, guild_id: guildId, channel_id: channelId, title, state: 'pending' },
      ...{ choice: toJson(choice), sandbox: null, fork_snapshot: null, incarnation: null },
      ...{ mode: mode ?? settings.mode ?? null, model: model ?? settings.model ?? null },
      ...{ session_id: null, directory: null, base_commit: null, created_by: by.id },
      ...{ error_message: null, error_hint: null, due: 0, created_at: now, updated_at: now },
    }
  }

  async #unarchive(threadId: string): Promise<void> {
    const { store, now } = this.#context
    const thread = await store.threads.get(threadId)
    if (thread?.state !== 'archived') return
    const attached = await sandboxesOf(this.#context, thread).ofThread(threadId)
    const state = attached || thread.incarnation !== null ? 'ready' : 'failed'
    await store.threads.update(threadId, { state, due: 0 }, now(), { from: ['archived'] })
  }

  async #inThread<T>(
    threadId: string,
    { by, action, target }: { by: Actor; action: string; target?: string | undefined },
    work: () => Promise<T>,
  ): Promise<T> {
    const row = await this.#context.store.threads.get(threadId)
    if (!row) throw new SandboxError('not_found', 'This thread has no conversation.')
    const entry = { by, action, ...placeOf(row), threadId, ...(target !== undefined && { target }) }
    return this.#audit.of(entry, work)
  }

  #onSandbox<T>(action: string, scope: Scope, target: string, by: Actor, work: () => Promise<T>): Promise<T> {
    const { guildId, channelId } = scope
    const place = { ...(guildId !== undefined && { guildId }), ...(channelId !== undefined && { channelId }) }
    return this.#audit.of({ by, action, ...place, target }, work)
  }

  #wake(threadId: string): void {
    void this.#worker.conversation(threadId)?.refresh().catch(this.#worker.onError)
  }

  async #refresh(threadId: string): Promise<void> {
    await this.#worker.conversation(threadId)?.refresh()
  }

  /** Users see the end of an answer a moment before its agent has let go of the sandbox. */
  async #settled(threadId: string): Promise<void> {
    const open = await this.#context.store.turns.open(threadId)
    if (open.every(({ state }) => isEnd(state)))
      await Promise.race([
        this.#worker.conversation(threadId)?.ended(),
        wait(settleMs, undefined, { ref: false }),
      ])
  }

  async #interrupt(threadId: string): Promise<void> {
    const conversation = this.#worker.conversation(threadId)
    conversation?.interrupt()
    conversation?.wake()
  }
}

function placeOf({ guild_id, channel_id }: Pick<ThreadRow, 'guild_id' | 'channel_id'>) {
  return { guildId: guild_id, channelId: channel_id }
}
