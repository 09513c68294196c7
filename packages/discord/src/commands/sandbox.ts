import { SandboxError } from '@sandkasten/sdk'
import { plain, printable, shortened } from '../show/escape.ts'
import { type Command, option, recordOf, sandboxOption, scopeOf } from './command.ts'
import { said } from './reply.ts'

/** A thread on a new sandbox, or on an existing one. */
export const sandbox: Command = {
  definition: {
    name: 'sandbox',
    description: 'Start a thread that works in a sandbox.',
    options: [
      option('provider', 'For a new sandbox; default: the channel’s provider', {
        autocomplete: true,
        max_length: 40,
      }),
      sandboxOption('An existing sandbox; default: a new one'),
      option('repo', 'For a new sandbox: clone this git repository'),
      option('prompt', 'What the agent should do', { max_length: 4000 }),
    ],
  },
  right: (call) => (call.text('sandbox') === undefined ? 'create' : 'use'),
  reply: 'public',
  target: (call) => call.text('sandbox') ?? call.text('provider'),
  async run(call, place) {
    if (call.threadId !== undefined)
      throw new SandboxError('invalid_argument', 'A thread cannot contain a thread.', {
        hint: 'Use /sandbox in a channel. To change the sandbox of this thread, use /sandbox-connect.',
      })
    const [existing, provider, repo] = [call.text('sandbox'), call.text('provider'), call.text('repo')]
    const prompt = call.text('prompt')
    if (existing !== undefined && (provider !== undefined || repo !== undefined))
      throw new SandboxError('invalid_argument', 'provider and repo are for new sandboxes.', {
        hint: 'Leave them out, or leave out sandbox to make a new one.',
      })
    // A wrong name never creates a sandbox.
    if (existing !== undefined) await recordOf(call, place, existing)
    const title = titleOf(prompt ?? existing ?? repo ?? 'New sandbox')
    const messageId = await call.replyId()
    await place.startThread({
      messageId,
      channelId: call.channelId,
      guildId: call.guildId,
      title,
      by: call.by,
      userId: call.by.id,
      sandbox:
        existing === undefined
          ? { create: { provider: provider ?? (await providerOf(call, place)), repo } }
          : { existing },
      message: prompt === undefined ? undefined : { id: call.id, by: call.by, text: prompt },
    })
    const where = existing ?? ([provider, repo].filter(Boolean).join(', ') || 'a new sandbox')
    return said(`**${plain(title, 100)}**\n-# • ${plain(call.by.name, 60)} · ${plain(where, 200)}`)
  },
}

/** The name of a thread: the first line of what was asked. */
export function titleOf(text: string): string {
  const line =
    printable(text)
      .split('\n')
      .find((one) => one.trim() !== '') ?? ''
  return shortened(line.replace(/\s+/g, ' ').trim(), 90) || 'New sandbox'
}

async function providerOf(...[call, place]: Parameters<Command['run']>): Promise<string | undefined> {
  const { guildId, channelId } = scopeOf(call, place)
  return place.threads.getProviderForChannel(channelId!, guildId)
}
