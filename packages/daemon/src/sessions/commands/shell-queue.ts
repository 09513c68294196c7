import type { Open } from '../live-sessions.ts'

/** A command in a shell, as callers that wait for the shell see it. */
export interface ShellTurn {
  /** Null for a command that belongs to its request and has no id. */
  readonly execId: string | null
  readonly command: string
  /** When the command started, in ms since 1970. */
  startedAt: number
}

/** How much of a command's text is shown to callers that wait for it. */
const shownLength = 1000

const queues = new WeakMap<Open, Map<string, ShellTurn[]>>()

/**
 * Adds a command to the queue of a shell, which runs one command at a time. Call the returned function when the command
 * has ended.
 */
export function enterShell(open: Open, shell: string, execId: string | null, command: string): () => void {
  const ofSession = queues.get(open) ?? new Map<string, ShellTurn[]>()
  queues.set(open, ofSession)
  const queue = ofSession.get(shell) ?? []
  ofSession.set(shell, queue)
  const turn = { execId, command: command.slice(0, shownLength), startedAt: Date.now() }
  queue.push(turn)
  return () => {
    const at = queue.indexOf(turn)
    if (at === -1) return
    queue.splice(at, 1)
    if (at === 0 && queue[0]) queue[0].startedAt = Date.now()
    if (queue.length === 0 && ofSession.get(shell) === queue) ofSession.delete(shell)
  }
}

/** The command that runs in a shell, and the number of queued commands. */
export function shellQueue(open: Open, shell: string): { running?: ShellTurn; waiting: number } {
  const [running, ...waiting] = queues.get(open)?.get(shell) ?? []
  return { running, waiting: waiting.length }
}
