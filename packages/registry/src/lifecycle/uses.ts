import { SandboxError } from '@sandkasten/sdk'
import type { InterruptingOptions, Use } from '../types.ts'
import type { Run } from './run.ts'

/** Throws `conflict` if others use the sandbox, unless `force`. `what` completes “Stopping it would …”. */
export async function refuseWhileUsed(
  { context, lease }: Run,
  { force, threadId }: Pick<InterruptingOptions, 'force' | 'threadId'>,
  what: string,
): Promise<void> {
  if (force) return
  const uses = await context.uses.of(lease.row, { threadId })
  if (uses.length === 0) return
  throw new SandboxError(
    'conflict',
    `“${lease.row.name}” is in use by ${uses.map(described).join(', ')}. ${what}`,
    {
      hint: {
        sdk: 'Wait until they are done, or pass { force: true }.',
        http: 'Wait until they are done, or pass force.',
        cli: 'Wait until they are done, or add --force.',
      },
      details: { name: lease.row.name, uses },
    },
  )
}

function described({ threadId, purpose, pid }: Use): string {
  const who =
    threadId === undefined ? (pid === undefined ? 'another machine' : `process ${pid}`) : `thread ${threadId}`
  return `${who} (${purpose})`
}
