import { writeFile } from 'node:fs/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { Actor, Threads } from '@sandkasten/threads'
import { printable } from './printable.ts'

export interface CommandPlace {
  readonly threads: Threads
  readonly threadId: string
  readonly by: Actor
  readonly print: (text: string) => void
  readonly note: (line: string) => void
}

interface ChatCommand {
  readonly usage: string
  readonly does: string
  run(place: CommandPlace, argument: string): Promise<void>
}

/** Commands of the chat. `/quit` is the loop’s. */
export const chatCommands: Readonly<Record<string, ChatCommand>> = {
  abort: {
    usage: '/abort',
    does: 'end the answer, and empty the queue',
    async run({ threads, threadId, by, note }) {
      if (!(await threads.abort(threadId, by))) note('nothing is at work.')
    },
  },
  diff: {
    usage: '/diff',
    does: 'show what the agent has changed',
    async run({ threads, threadId, by, print, note }) {
      const patch = await threads.diff(threadId, by)
      if (patch === '') note('nothing has changed.')
      else print(printable(patch))
    },
  },
  pull: {
    usage: '/pull [patch | branch]',
    does: 'save the changes here, as a patch or a git bundle',
    async run({ threads, threadId, by, note }, argument) {
      const as = argument === '' ? 'patch' : argument
      if (as !== 'patch' && as !== 'branch') throw usage('/pull patch, or /pull branch.')
      const { name, bytes } = await threads.pull(threadId, as, by)
      const file = await save(name, bytes)
      const take = as === 'patch' ? `git apply ${file}` : `git fetch ${file} '+refs/heads/*:refs/heads/*'`
      note(`saved. Take it over: ${take}`)
    },
  },
  model: {
    usage: '/model [provider/model]',
    does: 'choose the model, or list what there is',
    async run({ threads, threadId, by, print, note }, argument) {
      if (argument === '') {
        const models = await threads.models(threadId)
        print(`${models.map(({ id, name }) => printable(`${id}  ${name}`)).join('\n')}\n`)
        return
      }
      await threads.setModel(threadId, argument, by)
      note(`the next message goes to ${argument}.`)
    },
  },
  shell: {
    usage: '/shell COMMAND',
    does: 'run one command in the sandbox',
    async run({ threads, threadId, by, print, note }, argument) {
      const { output, exitCode, isCut } = await threads.shell(threadId, argument, by)
      const text = printable(output)
      print(text.endsWith('\n') || text === '' ? text : `${text}\n`)
      if (isCut) note('the output was too long; its middle is left out.')
      if (exitCode !== 0) note(`exit code ${exitCode}.`)
    },
  },
  url: {
    usage: '/url PORT',
    does: 'print the address of a port',
    async run({ threads, threadId, by, print }, argument) {
      print(`${await threads.url(threadId, Number(argument), by)}\n`)
    },
  },
  help: {
    usage: '/help',
    does: 'show this list',
    async run({ note }) {
      const all = [...Object.values(chatCommands), { usage: '/quit', does: 'leave; the conversation stays' }]
      for (const { usage, does } of all) note(`${usage.padEnd(26)}${does}`)
    },
  },
}

/** Runs `/name argument`. */
export async function runChatCommand(place: CommandPlace, line: string): Promise<void> {
  const [, name, argument] = /^\/(\S*)\s*(.*)$/s.exec(line)!
  const command = Object.hasOwn(chatCommands, name!) ? chatCommands[name!] : undefined
  if (!command) throw usage(`There is no /${printable(name!)}. See /help.`)
  await command.run(place, argument!.trim())
}

const mostFiles = 1_000

/** Saves a file in this folder, and replaces none. */
async function save(name: string, bytes: Uint8Array): Promise<string> {
  const [, base, ending] = /^(.*?)(\.[a-z]+)$/.exec(name) ?? [undefined, name, '']
  for (let number = 1; number <= mostFiles; number += 1) {
    const file = `${base}${number === 1 ? '' : `-${number}`}${ending}`
    try {
      await writeFile(file, bytes, { flag: 'wx' })
      return file
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
  throw new SandboxError('conflict', `There are ${mostFiles} files of ${base} here.`)
}

function usage(message: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint: 'See /help.' })
}
