/**
 * Measuring from another process. Node starts programs with `fork`, whose time grows with the memory of the process that calls it (7 ms for
 * 200 MiB here), so who is compared with us must not pay for the size that this process happens to have: each gets a fresh, small one. It
 * measures itself; asking it costs nothing of what is measured.
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

/** Starts a script of ours that calls `serve`; `wrapper` is an argv that runs it, such as `unshare -m`. */
export async function startWorker(
  cleanup: Cleanup,
  script: URL,
  options: { args?: readonly string[]; wrapper?: readonly string[] } = {},
): Promise<Ask> {
  const { args = [], wrapper = [] } = options
  const [program, ...rest] = [...wrapper, process.execPath, script.pathname, ...args] as [string, ...string[]]
  // A session of its own: Ctrl-C is for us, and we still need it to clean up.
  const child = spawn(program, rest, { stdio: ['ignore', 2, 2, 'ipc'], detached: true })
  const ended = once(child, 'exit').then((): Message => ({ error: `the worker ${script.pathname} ended` }))
  const answer = async () =>
    Promise.race([ended, once(child, 'message').then(([message]) => message as Message)])
  cleanup.add(`the worker ${script.pathname}`, async () => {
    if (child.connected) child.disconnect()
    await ended
  })
  await answer()
  // One question at a time: the answers have no numbers, and two measurements at once would disturb each other.
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

/** The worker's side. It ends when we do. */
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
