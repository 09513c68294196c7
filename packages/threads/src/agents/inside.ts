import { createHash, randomBytes } from 'node:crypto'
import { bootstrapOpencode, openWorktree } from '@sandkasten/opencode'
import type { SessionServer } from '@sandkasten/opencode/session'
import { SandboxError } from '@sandkasten/sdk'
import type { AgentRequest, AgentsOptions } from './request.ts'
import type { ResolvedDirectory } from './resolved-directory.ts'

/** opencode’s server in the sandbox: found, or started. The registry has its password, so another process finds it. */
export async function serverInside(
  resolved: ResolvedDirectory,
  { sandboxes, sandbox, onProgress, signal }: AgentRequest,
  { config, model, credentials, envVars, binary }: AgentsOptions,
): Promise<SessionServer> {
  const { handle, record } = sandbox
  const password = await inTurn(record.id, async () => {
    const known = await sandboxes.opencodePassword(record.name)
    if (known !== undefined) return known
    const made = randomBytes(24).toString('base64url')
    await sandboxes.setOpencodePassword(record.name, made)
    return made
  })
  const server = await bootstrapOpencode(handle, {
    cwd: resolved.projectDirectory,
    password,
    ...(config && { config }),
    ...(model !== undefined && { model }),
    ...(credentials && { credentials }),
    ...(envVars && { envVars }),
    ...(binary !== undefined && { binary }),
    ...(signal && { signal }),
    onProgress: ({ message }) => onProgress?.(message),
  })
  const { url, forwarded } = await handle.getEndpoint(server.port, { signal })
  // A forwarded address belongs to this process.
  await sandboxes.setBaseUrl(record.name, forwarded ? undefined : url)
  return { url: server.url, headers: server.headers, directory: resolved.workingDirectory }
}

/** The folder of the thread: the project, or a worktree if other threads work there, too. */
export async function directoryInside({
  threadId,
  sandbox,
  directory,
  isShared = false,
  signal,
}: AgentRequest): Promise<{ path: string; problem?: string }> {
  const { handle, record } = sandbox
  const project = record.directory ?? handle.workdir
  if (directory === project || (directory === undefined && !isShared)) return { path: project }
  try {
    const { path } = await openWorktree(handle, { directory: project, thread: nameOf(threadId), signal })
    return { path }
  } catch (error) {
    if (!SandboxError.is(error, 'not_found', 'conflict', 'command_not_found')) throw error
    return { path: project, problem: `${error.message} So the threads share one folder.` }
  }
}

/** A name of a thread for folders and branches. Other ids than those of Discord get a checksum. */
export function nameOf(threadId: string): string {
  if (/^[a-z0-9]{1,40}$/.test(threadId)) return threadId
  return createHash('sha256').update(threadId).digest('hex').slice(0, 20)
}

const turns = new Map<string, Promise<unknown>>()

/** One at a time for each key. */
async function inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
  const turn = (turns.get(key) ?? Promise.resolve()).catch(() => {}).then(work)
  turns.set(key, turn)
  try {
    return await turn
  } finally {
    if (turns.get(key) === turn) turns.delete(key)
  }
}
