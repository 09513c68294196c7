import { fstatSync } from 'node:fs'
import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import type { Connection } from './api.ts'
import { eventsOf } from './events.ts'

/** Prefix of internal commands that carry input into a sandbox; lists for people omit them. */
export const inputPrefix = 'cli-stdin-'

/** Whether stdin is a pipe, a socket or a file. Input from a terminal or /dev/null is not forwarded. */
export function pipedInput(): boolean {
  if (process.stdin.destroyed || process.stdin.readableEnded) return false
  try {
    const facts = fstatSync(0)
    return facts.isFIFO() || facts.isSocket() || facts.isFile()
  } catch {
    return false
  }
}

export interface PassedInput {
  /** A named pipe in the sandbox from which the command reads stdin. */
  path: string
  close(): Promise<void>
}

/**
 * Commands of a shell have no stdin, but can read a named pipe. A program beside the shell writes our stdin to that
 * pipe and removes it on exit.
 */
const feeder = `umask 077
folder=$(mktemp -d) || exit
trap 'rm -rf "$folder"' EXIT
trap 'exit 0' TERM
mkfifo "$folder/stdin" || exit
echo "$folder/stdin"
cat >"$folder/stdin"`

export async function passInput(
  connection: Connection,
  base: string,
  signal: AbortSignal,
): Promise<PassedInput> {
  const exec_id = `${inputPrefix}${randomId(12)}`
  const own = `${base}/execs/${exec_id}`
  const body = { cmd: 'sh', args: ['-c', feeder], exec_id, detach: true, stdin_open: true }
  await connection.json('POST', `${base}/run`, body, { signal })
  const closing = new AbortController()
  const path = await pipePath(await connection.request('GET', `${own}/output`, { signal }))
  const passing = pass(connection, own, closing.signal)
  return {
    path,
    async close() {
      closing.abort()
      process.stdin.destroy()
      await passing
      await connection.json('POST', `${own}/signal`, { signal: 'SIGTERM' }).catch(() => {})
    },
  }
}

async function pipePath(response: Response): Promise<string> {
  let said = ''
  let wrong = ''
  for await (const { event, data } of eventsOf(response)) {
    if (event === 'stdout') said += data.text ?? ''
    if (event === 'stderr') wrong += data.text ?? ''
    if (said.includes('\n')) return said.slice(0, said.indexOf('\n'))
  }
  throw new SandboxError('unsupported', `Stdin cannot be forwarded to this sandbox. ${wrong.trim()}`.trim(), {
    hint: 'The image needs mktemp, mkfifo and cat. To run the command without input, add </dev/null.',
  })
}

/** Forwards until stdin or the command ends. A command that does not read all input is no error. */
async function pass(connection: Connection, own: string, signal: AbortSignal): Promise<void> {
  try {
    for await (const chunk of process.stdin)
      await connection.request('POST', `${own}/stdin`, { bytes: new Uint8Array(chunk), signal })
    await connection.request('POST', `${own}/stdin?eof=true`, { bytes: new Uint8Array(), signal })
  } catch {
    // The command or the session has ended; the command's own stream reports how.
  }
}
