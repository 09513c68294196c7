import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { z } from 'zod'
import type { BridgeHome, BridgeSchedule } from './bridge-home.ts'
import { limits } from './limits.ts'

/** Runs work in the sandbox of the thread. Relative paths start in `directory`. */
export type UseSandbox = <T>(
  work: (handle: SandboxHandle, directory: string, signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
) => Promise<T>

export interface BridgeContext {
  readonly threadId: string
  readonly home: BridgeHome
  readonly useSandbox: UseSandbox
  readonly signal: AbortSignal
}

/** One tool. The model sees its name, its description and its schema. */
export interface BridgeTool<Schema extends z.ZodObject = z.ZodObject> {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input: Schema
  readonly timeoutMs: number
  /** Returns what the model reads. */
  run(input: z.infer<Schema>, context: BridgeContext): Promise<string>
}

const text = (most: number) => z.string().trim().min(1).max(most)

const sendFile = defineTool({
  name: 'send_file',
  title: 'Send a file',
  description:
    'Sends a file of the sandbox to the user, who sees it in the chat. Use it for pictures, documents and results.',
  input: z.object({
    path: text(limits.pathChars).describe('Absolute, or relative to the project folder.'),
    note: text(limits.noteChars).optional().describe('One sentence that is shown with the file.'),
  }),
  timeoutMs: limits.callMs,
  async run({ path, note }, { threadId, home, useSandbox, signal }) {
    const bytes = await useSandbox((handle, directory, both) => {
      const absolute = path.startsWith('/') ? path : `${directory}/${path}`
      return readLimited(handle, absolute, both)
    }, signal)
    const name = path.split('/').findLast((part) => part !== '') ?? 'file'
    await home.sendFile(threadId, { name: name.slice(-200), bytes }, note, { signal })
    return `Sent ${name} (${bytes.byteLength} bytes).`
  },
})

const askUser = defineTool({
  name: 'ask_user',
  title: 'Ask the user',
  description:
    'Asks the user and waits for the reply, which can take long. Use it when you cannot continue without a decision.',
  input: z.object({
    question: text(limits.questionChars),
    choices: z.array(text(limits.choiceChars)).max(limits.choices).default([]),
  }),
  timeoutMs: limits.askMs,
  async run({ question, choices }, { threadId, home, signal }) {
    return `The user replied: ${await home.ask(threadId, { text: question, choices }, { signal })}`
  },
})

const setTitle = defineTool({
  name: 'set_title',
  title: 'Set the title',
  description: 'Renames the conversation. Use a few words that say what it is about.',
  input: z.object({ title: text(limits.titleChars) }),
  timeoutMs: limits.callMs,
  async run({ title }, { threadId, home, signal }) {
    await home.setTitle(threadId, title, { signal })
    return 'The conversation has this title now.'
  },
})

const schedule = defineTool({
  name: 'schedule',
  title: 'Schedule a message',
  description:
    'Sends you a message in this conversation later, once or again and again. The sandbox may be stopped in between.',
  input: z.object({
    when: text(100).describe('An ISO date with a time zone, “in 20 minutes”, or “every 6 hours”.'),
    text: text(limits.scheduleChars).describe('The message that you will get.'),
  }),
  timeoutMs: limits.callMs,
  async run(input, { threadId, home, signal }) {
    return `Scheduled. ${shown(await home.schedule(threadId, input, { signal }))}`
  },
})

const cancelSchedule = defineTool({
  name: 'cancel_schedule',
  title: 'Cancel a scheduled message',
  description: 'Cancels a scheduled message by its id.',
  input: z.object({ id: text(100) }),
  timeoutMs: limits.callMs,
  async run({ id }, { threadId, home, signal }) {
    if (await home.cancelSchedule(threadId, id, { signal })) return 'Cancelled.'
    throw new SandboxError('not_found', `There is no scheduled message ${JSON.stringify(id)}.`)
  },
})

const listSchedules = defineTool({
  name: 'list_schedules',
  title: 'List scheduled messages',
  description: 'Lists the scheduled messages of this conversation.',
  input: z.object({}),
  timeoutMs: limits.callMs,
  async run(_, { threadId, home, signal }) {
    const all = await home.listSchedules(threadId, { signal })
    return all.length === 0 ? 'Nothing is scheduled.' : all.map(shown).join('\n')
  },
})

/** With the server name `thread`, a model sees `thread_send_file` and so on. */
export const tools: readonly BridgeTool[] = [
  sendFile,
  askUser,
  setTitle,
  schedule,
  cancelSchedule,
  listSchedules,
]

function defineTool<Schema extends z.ZodObject>(tool: BridgeTool<Schema>): BridgeTool {
  return tool as unknown as BridgeTool
}

function shown({ id, when, text: message }: BridgeSchedule): string {
  return `${id}: ${when}: ${message.slice(0, 200)}`
}

/** The stream comes from the sandbox, and may be longer than the file is said to be. */
async function readLimited(handle: SandboxHandle, path: string, signal: AbortSignal): Promise<Uint8Array> {
  const { type, size } = await handle.files.stat(path, { signal })
  if (type !== 'file') throw new SandboxError('invalid_argument', `${path} is not a file.`)
  const tooLarge = new SandboxError(
    'too_large',
    `${path} is larger than ${limits.fileBytes / 1024 / 1024} MB. Send a smaller file, or a part of it.`,
  )
  if (size > limits.fileBytes) throw tooLarge
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of await handle.files.readStream(path, { end: limits.fileBytes + 1, signal })) {
    chunks.push(chunk)
    length += chunk.byteLength
    if (length > limits.fileBytes) throw tooLarge
  }
  return Buffer.concat(chunks)
}
