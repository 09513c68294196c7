import type { CreateOptions, SandboxRecord, Scope } from '@sandkasten/registry'
import type { CallOptions } from '@sandkasten/sdk'
import type { AgentMode, AgentModel, AgentReply } from './agent.ts'
import type { ChatFile, Posts } from './chat.ts'
import type { Settings, SettingsPlace } from './rights.ts'

/**
 * All conversations of one bot. State is in the database: another process continues after a crash, and only one process
 * at a time works for a bot. Methods that change a thread are done when their promise resolves; prompts are queued.
 */
export interface Threads extends AsyncDisposable {
  /** Begins the due work: unfinished answers, the lifecycle of sandboxes, schedules. `Chat` methods are called from here on. */
  start(): Promise<void>
  /** Stops without losing anything; work continues after the next `start()`. */
  close(): Promise<void>

  /** A new conversation. Returns at once; the sandbox is made in the background. The same thread id twice is one. */
  begin(thread: NewThread): Promise<Thread>
  /** A message of a user. Queued while the agent works. The same id twice is one message. */
  say(message: UserMessage): Promise<'started' | 'queued' | 'known' | 'unknown-thread'>
  get(threadId: string): Promise<Thread | undefined>
  list(options?: { readonly channelId?: string; readonly sandbox?: string }): Promise<readonly Thread[]>

  /** Ends the present answer and empties the queue. False: nothing was at work. */
  abort(threadId: string, by: Actor): Promise<boolean>
  /** Cancels a conversation whose sandbox is being made; its sandbox is removed. */
  cancel(threadId: string, by: Actor): Promise<boolean>
  /** The reply to a question of the agent. False: it was answered already, or has ended. */
  reply(questionId: string, reply: AgentReply, by: Actor): Promise<boolean>
  setModel(threadId: string, model: string | undefined, by: Actor): Promise<void>
  models(threadId: string): Promise<readonly AgentModel[]>

  /** Connects the thread to another sandbox. Its agent begins a new session there. */
  connect(threadId: string, sandbox: string, by: Actor): Promise<void>
  /** One shell command in the folder of the thread. */
  shell(threadId: string, command: string, by: Actor, options?: CallOptions): Promise<ShellResult>
  /** What the thread has changed, as a patch. Empty: nothing. */
  diff(threadId: string, by: Actor, options?: CallOptions): Promise<string>
  /** The changes as a file: a patch, or a git bundle with a branch. */
  pull(threadId: string, as: 'patch' | 'branch', by: Actor, options?: CallOptions): Promise<ChatFile>
  /** A link to a port of the sandbox: signed where the provider can sign. */
  url(threadId: string, port: number, by: Actor, options?: CallOptions): Promise<string>

  /** Sandboxes of a scope, from the store alone: fast enough for a list that is shown while a user types. */
  sandboxes(scope: Scope, options?: { readonly refresh?: boolean }): Promise<readonly SandboxRecord[]>
  stop(scope: Scope, sandbox: string, by: Actor): Promise<SandboxRecord>
  startSandbox(scope: Scope, sandbox: string, by: Actor): Promise<SandboxRecord>
  snapshot(scope: Scope, sandbox: string, by: Actor): Promise<{ readonly snapshotId: string }>
  /** Ends the sandbox, and archives its threads. */
  destroy(scope: Scope, sandbox: string, by: Actor): Promise<{ readonly threads: readonly string[] }>

  /** The chat reports what users did to the thread itself. */
  archived(threadId: string): Promise<void>
  unarchived(threadId: string): Promise<void>
  deleted(threadId: string): Promise<void>
  channelDeleted(channelId: string): Promise<void>

  /** Where the chat keeps which of its posts show what. */
  readonly posts: Posts
  /** Settings of the channel over those of the guild. */
  settings(place: SettingsPlace): Promise<Settings>
  /** Replaces what is set for exactly this place. */
  saveSettings(place: SettingsPlace, settings: Settings, by: Actor): Promise<void>
  /** The provider of the channel: from its settings, its guild’s, or the registry’s default. Undefined: auto-detection. */
  getProviderForChannel(channelId: string, guildId?: string): Promise<string | undefined>
  /** Actions of the chat itself, such as a refused command. Actions of this interface are recorded already. */
  audit(entry: AuditEntry): Promise<void>
  auditLog(place: SettingsPlace, options?: { readonly limit?: number }): Promise<readonly SavedAuditEntry[]>
}

export interface AuditEntry {
  readonly by: Actor
  /** `destroy`, `shell`, `setup`. */
  readonly action: string
  readonly guildId?: string
  readonly channelId?: string
  readonly threadId?: string
  /** The sandbox, the provider, the command. Never a secret. */
  readonly target?: string
  /** `ok`, or the code of the error. */
  readonly result: string
}

export interface SavedAuditEntry extends AuditEntry {
  readonly at: Date
}

export interface Actor {
  /** The chat's id of the user, or of a program such as `ci`. */
  readonly id: string
  readonly name: string
}

export interface NewThread {
  /** The chat's id of the thread. */
  readonly threadId: string
  readonly channelId: string
  readonly guildId?: string
  readonly title: string
  readonly by: Actor
  readonly sandbox: SandboxChoice
  readonly model?: string
  readonly mode?: AgentMode
  /** The first message. Stored with the thread, so that a crash in between loses neither. */
  readonly message?: Omit<UserMessage, 'threadId'>
}

/** Of new sandboxes; they are stored with the thread. */
export type SandboxOptions = Pick<
  CreateOptions,
  'image' | 'network' | 'ports' | 'resources' | 'lifetimeMs' | 'idleStopMs'
>

/** `fork`: a copy of the sandbox and the agent's session of another thread. */
export type SandboxChoice =
  | { readonly existing: string }
  | {
      readonly create: SandboxOptions & Pick<CreateOptions, 'name' | 'provider' | 'repo' | 'snapshotId'>
    }
  | { readonly fork: string }

export interface UserMessage {
  readonly id: string
  readonly threadId: string
  readonly by: Actor
  readonly text: string
  readonly attachments?: readonly Attachment[]
}

export interface Attachment {
  readonly name: string
  readonly sizeBytes: number
  load(options?: CallOptions): Promise<AsyncIterable<Uint8Array>>
}

export interface Thread {
  readonly threadId: string
  readonly channelId: string
  readonly guildId?: string
  readonly title: string
  readonly state: 'pending' | 'ready' | 'failed' | 'archived' | 'ended'
  readonly createdBy: string
  readonly sandbox?: string
  readonly mode?: AgentMode
  readonly model?: string
  readonly isWorking: boolean
  readonly queued: number
  readonly error?: string
}

export interface ShellResult {
  readonly exitCode: number
  /** Both streams in their order; long output has its middle left out. */
  readonly output: string
  readonly isCut: boolean
}
