import type { Registry, SandboxRecord, Scope } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import type { ProviderKind } from '@sandkasten/sdk/auto'
import type { Action, Actor, Member, Thread, Threads } from '@sandkasten/threads'
import type { Refusals } from '../messages/refusals.ts'
import type { Messages } from '../rest/messages.ts'
import type { Post } from '../show/post.ts'

/** What commands and controls work with. */
export interface Place {
  readonly appId: string
  /** The bot’s own user. */
  readonly userId: string
  readonly threads: Threads
  readonly registry: Registry
  readonly kinds: readonly ProviderKind[]
  readonly messages: Messages
  readonly refusals: Refusals
  readonly startThread: (start: StartThread) => Promise<void>
}

export interface StartThread {
  /** The thread gets the id of this message. */
  readonly messageId: string
  readonly channelId: string
  readonly guildId: string
  readonly title: string
  readonly by: Actor
  /** Becomes a member of the thread. Absent: no person has started it. */
  readonly userId?: string
  readonly sandbox: Parameters<Threads['begin']>[0]['sandbox']
  readonly model?: string
  readonly message?: Parameters<Threads['begin']>[0]['message']
}

/** A slash command or a control that a member has used. */
export interface Call {
  readonly id: string
  readonly by: Actor
  readonly member: Member
  readonly guildId: string
  /** In a thread: the channel that it belongs to. */
  readonly channelId: string
  /** If the call came from a thread. */
  readonly threadId?: string
}

export interface CommandCall extends Call {
  text(option: string): string | undefined
  whole(option: string): number | undefined
  flag(option: string): boolean | undefined
  /** Replaces the reply. */
  update(post: Post): Promise<void>
  /** The id of the reply, which the channel shows. */
  replyId(): Promise<string>
}

/**
 * One slash command. `private`: only the user sees the reply. `public`: the channel does. `form`: the reply is a form,
 * which `form` returns.
 */
export interface Command {
  readonly definition: CommandDefinition
  readonly right: Action | ((call: CommandCall) => Action)
  readonly reply: 'private' | 'public'
  /** For the audit log. */
  readonly target?: (call: CommandCall) => string | undefined
  run(call: CommandCall, place: Place): Promise<Post>
}

export interface FormCommand extends Omit<Command, 'reply' | 'run'> {
  readonly reply: 'form'
  form(call: CommandCall, place: Place): Promise<Form>
}

export interface Form {
  readonly id: string
  readonly title: string
  readonly fields: readonly FormField[]
}

export interface FormField {
  readonly id: string
  readonly label: string
  readonly placeholder?: string
  readonly isRequired: boolean
  readonly isLong: boolean
}

/** The JSON that Discord takes. */
export interface CommandDefinition {
  readonly name: string
  readonly description: string
  readonly options: readonly CommandOption[]
}

export interface CommandOption {
  readonly type: 3 | 4 | 5 | 6 | 8
  readonly name: string
  readonly description: string
  readonly required?: boolean
  readonly autocomplete?: boolean
  readonly choices?: ReadonlyArray<{ readonly name: string; readonly value: string }>
  readonly min_value?: number
  readonly max_value?: number
  readonly max_length?: number
}

export function option(
  name: string,
  description: string,
  more: Partial<Omit<CommandOption, 'name' | 'description'>> = {},
): CommandOption {
  return {
    type: 3,
    name,
    description,
    ...(more.type === undefined || more.type === 3 ? { max_length: 2000 } : {}),
    ...more,
  }
}

/** The option of a sandbox’s name, with the channel’s sandboxes to choose from. */
export function sandboxOption(description: string, required = false): CommandOption {
  return option('sandbox', description, { autocomplete: true, required, max_length: 63 })
}

export function scopeOf({ guildId, channelId }: Call, { appId }: Place): Scope {
  return { appId, guildId, channelId }
}

/** The thread in which the command was used. */
export async function threadOf(call: Call, { threads }: Place): Promise<Thread> {
  const thread = call.threadId === undefined ? undefined : await threads.get(call.threadId)
  if (thread) return thread
  throw new SandboxError('not_found', 'This is not a thread with a sandbox.', {
    hint: 'Use the command in a thread that /sandbox has started.',
  })
}

/** The sandbox that the command names, or that of the thread. */
export async function sandboxOf(call: CommandCall, place: Place): Promise<string> {
  const named = call.text('sandbox')
  if (named !== undefined) return (await recordOf(call, place, named)).name
  const { sandbox } = await threadOf(call, place)
  if (sandbox !== undefined) return sandbox
  throw new SandboxError('not_found', 'This thread has no sandbox yet.', {
    hint: 'Wait until it is ready, or name a sandbox.',
  })
}

/** Throws `not_found` with similar names. */
export function recordOf(call: Call, place: Place, name: string): Promise<SandboxRecord> {
  return place.registry.in(scopeOf(call, place)).get(name)
}
