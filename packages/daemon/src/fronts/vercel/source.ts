import { SandboxError } from '@sandkasten/sdk'
import { cloneRepo } from '@sandkasten/sdk/recipes'
import { z } from 'zod'
import type { Session, Used } from '../../sessions/index.ts'
import { notSupported } from '../shared/request.ts'
import type { Entry, VercelCall } from './entry.ts'

/** The initial content of a new sandbox. */
export const source = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('git'),
    url: z.string().min(1),
    depth: z.int().positive().optional(),
    revision: z.string().min(1).optional(),
    username: z.string().optional(),
    password: z.string().optional(),
  }),
  z.object({ type: z.literal('tarball'), url: z.string().min(1) }),
  z.object({ type: z.literal('snapshot'), snapshotId: z.string().min(1) }),
])

type Source = z.infer<typeof source>

/** Limits sources that send very slowly. */
const fillMs = 600_000

/** Downloads the source into the sandbox. Stops when the client disconnects. */
export async function fill(
  entry: Entry,
  { caller, signal }: VercelCall,
  session: Session,
  from: Source,
): Promise<void> {
  if (from.type === 'snapshot') return
  const clock = AbortSignal.timeout(fillMs)
  const ending = AbortSignal.any([signal, clock])
  const work = ({ sandbox }: Used) =>
    from.type === 'git' ? clone(sandbox, from, ending) : unpack(sandbox, from.url, ending)
  await entry.services.sessions.use.use(caller, session.id, work).catch((cause: unknown) => {
    if (!clock.aborted) throw cause
    throw new SandboxError('timeout', `The source did not arrive within ${fillMs / 1000} s.`, { cause })
  })
}

async function clone(
  sandbox: Used['sandbox'],
  { url, depth, revision, username, password }: Extract<Source, { type: 'git' }>,
  signal: AbortSignal,
): Promise<void> {
  // A commit needs the full history. A branch or tag whose name looks like a commit is found there too.
  const commit = revision !== undefined && /^[0-9a-f]{7,40}$/.test(revision)
  await cloneRepo(sandbox, {
    url,
    path: '.',
    token: password,
    username: password === undefined ? undefined : username || undefined,
    branch: commit ? undefined : revision,
    depth: commit ? undefined : depth,
    signal,
  })
  if (commit)
    await mustRun(sandbox.runCommand({ cmd: 'git', args: ['checkout', '--quiet', revision], signal }))
}

async function unpack(sandbox: Used['sandbox'], url: string, signal: AbortSignal): Promise<void> {
  // The URL is a separate argument after `--`, so the shell does not parse it and curl does not read it as an option.
  const line = 'curl -fsSL -- "$1" | tar -xzf - --strip-components=1 --no-same-owner'
  const args = ['-o', 'pipefail', '-c', line, 'bash', url]
  await mustRun(sandbox.runCommand({ cmd: 'bash', args, signal }))
}

async function mustRun(running: Promise<{ exitCode: number; stderr: string }>): Promise<void> {
  const { exitCode, stderr } = await running
  if (exitCode !== 0) throw notSupported(`This source (${stderr.trim().slice(-300)})`, 'Check its URL.')
}
