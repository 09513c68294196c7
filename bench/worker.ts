/**
 * Measures from another process. Node starts programs with `fork`, whose time grows with the memory of the caller (7
 * ms for 200 MiB here). The subjects that we compare with must not pay for the size of this process, so each gets a
 * new, small one. It measures itself; the request to it is not timed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Cleanup } from './cleanup.ts'

export interface Answer {
  readonly ms: number
  readonly text?: string
}
export type Ask = (call: string, ...args: string[]) => Promise<Answer>
type Message = Answer | { readonly error: string }

/** Starts a script that calls `serve`; `wrapper` is an argv that runs it, such as `unshare -m`. */
export async function startWorker(
  cleanup: Cleanup,
  script: URL,
  options: { args?: readonly string[]; wrapper?: readonly string[] } = {},
): Promise<Ask> {
  const { args = [], wrapper = [] } = options
  const [program, ...rest] = [
    ...[...wrapper, process.execPath, ...process.execArgv],
    ...[script.pathname, ...args],
  ] as [string, ...string[]]
  // Its own session, so that Ctrl-C does not end it: the cleanup needs it.
  const child = spawn(program, rest, { stdio: ['ignore', 2, 2, 'ipc'], detached: true })
  const ended = once(child, 'exit').then((): Message => ({ error: `the worker ${script.pathname} ended` }))
  const answer = async () =>
    Promise.race([ended, once(child, 'message').then(([message]) => message as Message)])
  cleanup.add(`the worker ${script.pathname}`, async () => {
    if (child.connected) child.disconnect()
    await ended
  })
  await answer()
  // One request at a time: responses have no ids, and concurrent measurements would disturb each other.
  let last: Promise<unknown> = Promise.resolve()
  return (...question) => {
    const result = last.then(async () => {
      const reply = answer()
      child.send(question)
      const told = await reply
      if ('error' in told) throw new Error(told.error)
      return told
    })
    last = result.catch(() => {})
    return result
  }
}

/** The worker's side. Ends with the parent. */
export function serve(calls: Readonly<Record<string, (...args: string[]) => Promise<Answer>>>): void {
  const send = (message: Message) => process.send?.(message)
  process.on('message', ([call, ...args]: [string, ...string[]]) => {
    const answer = calls[call] ?? (async () => Promise.reject(new Error(`no call ${call}`)))
    answer(...args).then(send, (error: unknown) =>
      send({ error: error instanceof Error ? error.message : String(error) }),
    )
  })
  process.on('disconnect', () => process.exit())
  send({ ms: 0 })
}
