import { SandboxError, type SandboxShell } from '@sandkasten/sdk'
import { expect, it, vi } from 'vitest'
import type { Context, Session } from '../context.ts'
import type { StoreBudget } from '../limits/store-budget.ts'
import type { Open } from '../live-sessions.ts'
import type { Use } from '../use.ts'
import { Commands } from './commands.ts'
import { ResultMemory } from './result-memory.ts'

const caller = { projectId: 'project' } as Parameters<Commands['start']>[0]
const session = {
  id: 'session',
  project_id: 'project',
  status: 'running',
  incarnation: 1,
} as unknown as Session
const fail = () => {
  throw new SandboxError('internal', 'The shell failed.')
}

function commandsOn(shell: Partial<SandboxShell>, rows: object[] = []) {
  const memory = new ResultMemory(1024)
  const opened = vi.spyOn(memory, 'open')
  const execs = {
    insert: async () => true,
    delete: async () => true,
    running: async () => rows,
    update: async () => true,
    prune: async () => {},
  }
  const log = { warn: () => {}, error: () => {} }
  const metrics = { count: () => {} }
  const live = { touch: () => {} }
  const config = { max_result_mb: 1 }
  const release = vi.fn()
  const open = { shells: new Map([['main', Promise.resolve(shell)]]) } as unknown as Open
  const take = async () => ({ session, open, sandbox: {} as never, release })
  const context = { memory, store: { execs }, log, metrics, live, config } as unknown as Context
  const budget = { added: () => {} } as unknown as StoreBudget
  const commands = new Commands(context, { take } as unknown as Use, budget)
  /** A released account grants nothing. */
  const released = () => opened.mock.results.map(({ value }) => !value.take(1))
  return { commands, take, release, released }
}

const row = (changes: object = {}) => ({
  session_id: 'session',
  project_id: 'project',
  exec_id: 'command',
  kind: 'exec',
  incarnation: 1,
  shell: 'main',
  command: '"sleep 1"',
  detached: 0,
  ...changes,
})

it('releases the account of a command that cannot be started', async () => {
  const { commands, release, released } = commandsOn({ exec: fail })
  const request = { kind: 'exec', command: 'true', shell: 'main', timeoutMs: 1000 } as const
  await expect(commands.start(caller, 'session', 'command', request)).rejects.toThrow('The shell failed.')
  expect(released()).toEqual([true])
  expect(release).toHaveBeenCalled()
})

it('releases the account of a command that cannot be followed after a restart', async () => {
  const { commands, take, release, released } = commandsOn({ attach: fail }, [row()])
  await commands.recover(session, take)
  expect(released()).toEqual([true])
  expect(release).toHaveBeenCalled()
})

it('releases the account of a command with an unreadable row when the command ends', async () => {
  const end = Promise.withResolvers<never>()
  const attach: SandboxShell['attach'] = (_, options) => {
    options?.onFound?.()
    return end.promise
  }
  const { commands, take, released } = commandsOn({ attach }, [row({ command: '{' })])
  await commands.recover(session, take)
  expect(released()).toEqual([false])
  end.reject(new SandboxError('interrupted', 'The shell ended.'))
  await vi.waitFor(() => expect(released()).toEqual([true]))
})
