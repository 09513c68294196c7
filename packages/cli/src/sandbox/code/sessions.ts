import type { AgentServer } from '@sandkasten/opencode'
import type { Hold } from '@sandkasten/registry'
import { directoryOf } from './place.ts'
import type { ReadyAgent } from './server.ts'

/** Ids come from the sandbox, and become arguments of a program there. */
export function isSessionId(value: unknown): value is string {
  return typeof value === 'string' && /^[A-Za-z0-9][\w-]{3,99}$/.test(value)
}

/** The session that was used last, which the next run continues. Undefined if the agent does not tell. */
export async function lastSession(hold: Hold, { name, server }: ReadyAgent): Promise<string | undefined> {
  try {
    if (server !== undefined) return await lastOfServer(server)
    return name === 'claude' ? await lastOfClaude(hold) : undefined
  } catch {
    // Without it the next run begins a new session, which is no reason to fail at the end of this one.
    return undefined
  }
}

/** The session to continue, if the agent still has it: a restored sandbox may be older. */
export async function knownSession({ server }: ReadyAgent, sessionId: unknown): Promise<string | undefined> {
  if (!isSessionId(sessionId)) return undefined
  if (server === undefined) return sessionId
  const { url, headers, directory } = server
  const response = await fetch(addressOf(url, `session/${sessionId}`, directory), {
    headers,
    signal: AbortSignal.timeout(answerMs),
    redirect: 'manual',
  })
  await response.body?.cancel()
  return response.status === 404 ? undefined : sessionId
}

const mostBytes = 8 * 1024 ** 2
const answerMs = 10_000

interface Session {
  id?: unknown
  parentID?: unknown
  time?: { updated?: unknown }
}

async function lastOfServer({ url, headers, directory }: AgentServer): Promise<string | undefined> {
  const response = await fetch(addressOf(url, 'session', directory), {
    headers,
    signal: AbortSignal.timeout(answerMs),
    redirect: 'manual',
  })
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    if (text.length > mostBytes) return undefined
  }
  const all: unknown = response.ok ? JSON.parse(text) : []
  const sessions = (Array.isArray(all) ? (all as Session[]) : []).filter(
    ({ parentID }) => parentID === undefined,
  )
  const updated = ({ time }: Session) => Number(time?.updated) || 0
  const [last] = sessions.sort((one, other) => updated(other) - updated(one))
  return isSessionId(last?.id) ? last.id : undefined
}

/** Claude Code keeps a file for each session, in a folder that is named after the project. */
async function lastOfClaude(hold: Hold): Promise<string | undefined> {
  const folder = directoryOf(hold).replace(/[^A-Za-z0-9]/g, '-')
  const { stdout } = await hold.handle.runCommand({
    cmd: 'sh',
    args: ['-c', 'ls -t "$HOME/.claude/projects/$1" | head -n 50', 'sh', folder],
    timeoutMs: answerMs,
    maxOutputBytes: 65_536,
  })
  const id = /^([0-9a-f-]{36})\.jsonl$/m.exec(stdout)?.[1]
  return isSessionId(id) ? id : undefined
}

function addressOf(url: string, path: string, directory: string): URL {
  const address = new URL(url)
  address.pathname = `${address.pathname.replace(/\/$/, '')}/${path}`
  address.searchParams.set('directory', directory)
  return address
}
