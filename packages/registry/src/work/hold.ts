import type { Hold, HoldOptions, NamedSandbox, OperationOptions } from '../types.ts'
import type { HeldSandboxes } from './held-sandboxes.ts'
import { checkPurpose, type Uses } from './uses.ts'

export interface HoldRooms {
  readonly uses: Uses
  readonly held: HeldSandboxes
}

/**
 * Resumes a sandbox, and registers its use by this process until the hold is released. If another process stops or
 * replaces it in between, it is resumed again.
 */
export async function hold(
  { uses, held }: HoldRooms,
  resume: (options: OperationOptions) => Promise<NamedSandbox>,
  options: HoldOptions = {},
): Promise<Hold> {
  const { threadId, purpose = 'use', ...operation } = options
  const checked = checkPurpose(purpose)
  for (;;) {
    options.signal?.throwIfAborted()
    const sandbox = await resume(operation)
    const key = { sandboxId: sandbox.record.id, threadId, purpose: checked }
    const leave = await uses.begin(key, sandbox.incarnation)
    if (leave) return holdOf(sandbox, held, leave)
  }
}

function holdOf(sandbox: NamedSandbox, held: HeldSandboxes, leave: () => Promise<void>): Hold {
  const over = new AbortController()
  const unwatch = held.watch(sandbox, (reason) => {
    over.abort(reason)
    // What is gone is not in use. If the database is away, the row goes with the release, or with this process.
    void leave().catch(() => {})
  })
  let released: Promise<void> | undefined
  const release = () => {
    released ??= unwatch().then(leave)
    return released
  }
  return { ...sandbox, signal: over.signal, release, [Symbol.asyncDispose]: release }
}
