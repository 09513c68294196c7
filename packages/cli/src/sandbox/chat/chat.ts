import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { openThreads, type SandboxChoice } from '@sandkasten/threads'
import { say } from '../../errors.ts'
import { write } from '../../output.ts'
import { registryPlace } from '../../registry-place.ts'
import { openHere } from '../open.ts'
import { type AgentChoice, agentsHere } from './agents.ts'
import { TerminalConversation } from './conversation.ts'
import { TerminalChat } from './terminal-chat.ts'

export interface ChatOptions extends AgentChoice {
  readonly provider?: string
  readonly sandbox?: string
  readonly repo?: string
}

/**
 * A conversation with a coding agent in a sandbox. It belongs to the name, or to this folder, and continues where it was
 * left.
 */
export async function chat(name: string | undefined, options: ChatOptions): Promise<number> {
  checkOptions(options)
  const threadId = name === undefined ? await folderThread() : namedThread(name)
  const { data } = await registryPlace()
  const by = { id: 'local', name: userInfo().username }
  const note = (line: string) => say(`sandkasten: ${line}`)
  const print = (text: string) => write(process.stdout, text)
  const conversation = new TerminalConversation({
    ...{ threadId, by, input: process.stdin, print, note },
    say: async (id, text) => {
      const message = { id, by, text }
      const title = name ?? path.basename(process.cwd())
      const choice = choiceOf(name, options)
      const { model } = options
      const thread = { threadId, channelId: 'terminal', title, by, sandbox: choice, message, model }
      await threads.begin(thread)
    },
  })
  await using opened = await openHere()
  await using agents = await agentsHere(path.join(data, 'threads', 'terminal'), options)
  const threads = await openThreads({
    appId: 'terminal',
    // The sandboxes of the command line.
    sandboxAppId: '',
    registry: opened.registry,
    ...agents.options,
    dataDir: data,
    allowsLocalLinks: true,
    chat: new TerminalChat({
      ...{ threadId, note, answer: print },
      keep: (file, bytes) => keep(path.join(data, 'threads', 'received', threadId), file, bytes),
      onQuestion: (question) => conversation.onQuestion(question),
      onSettled: (question) => conversation.onSettled(question),
      onFinal: (answer) => conversation.onFinal(answer),
    }),
  })
  try {
    await threads.start()
    const thread = await threads.get(threadId)
    if (thread && options.model !== undefined) await threads.setModel(threadId, options.model, by)
    if (thread) note(`continuing in ${thread.sandbox ?? 'a new sandbox'}.`)
    const code = await conversation.run(threads)
    const after = await threads.get(threadId)
    if (after?.isWorking) note('the answer is not complete. The conversation continues when you come back.')
    return code
  } finally {
    await threads.close()
  }
}

function checkOptions({ sandbox, provider, repo }: ChatOptions): void {
  if (sandbox === undefined || (provider === undefined && repo === undefined)) return
  throw new SandboxError(
    'invalid_argument',
    '--sandbox names an existing sandbox, so it takes no --provider or --repo.',
  )
}

function choiceOf(name: string | undefined, { sandbox, provider, repo }: ChatOptions): SandboxChoice {
  if (sandbox !== undefined) return { existing: sandbox }
  return { create: { ...(name !== undefined && { name }), provider, repo } }
}

function namedThread(name: string): string {
  if (/^[a-z0-9][a-z0-9._-]{0,62}$/.test(name)) return `name-${name}`
  throw new SandboxError('invalid_argument', 'This cannot be the name of a conversation.', {
    hint: 'Use 1 to 63 characters: a to z, 0 to 9, dots, underscores and hyphens.',
  })
}

async function folderThread(): Promise<string> {
  const folder = await realpath(process.cwd())
  return `folder-${createHash('sha256').update(folder).digest('hex').slice(0, 24)}`
}

const mostFiles = 1_000

/** Keeps a file of the agent outside of the project, under a name that no program runs by accident. */
function keep(folder: string, name: string, bytes: Uint8Array): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const safe =
    name
      .replace(/[^\p{L}\p{N}._-]+/gu, '_')
      .replace(/^\.+/, '')
      .slice(-80) || 'file'
  for (let number = 1; number <= mostFiles; number += 1) {
    const file = path.join(folder, `${number}-${safe}`)
    try {
      writeFileSync(file, bytes, { flag: 'wx', mode: 0o600 })
      return file
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
  throw new SandboxError('quota_exceeded', `There are ${mostFiles} files in ${folder}.`, {
    hint: 'Remove some.',
  })
}
