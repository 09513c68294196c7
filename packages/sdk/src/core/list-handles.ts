import { SandboxError } from '../errors.ts'
import { mapLimit } from '../shared/calls/map-limit.ts'
import type { SandboxInfo, SandboxPage, SandboxStatus } from '../spec/index.ts'

/** Enough to hide the latency of a remote provider. */
const concurrentOpens = 8

/** These would have to be awaited, or cannot be used. */
const without: readonly SandboxStatus[] = ['creating', 'failed', 'destroyed']

/** Opens the sandboxes of a page in their order. Leaves out a sandbox that was removed since it was listed. */
export async function handlesOf<T>(
  page: SandboxPage,
  open: (info: SandboxInfo) => Promise<T>,
): Promise<T[] & { nextCursor?: string }> {
  const infos = page.filter(({ status }) => !without.includes(status))
  const opened = await mapLimit(infos, concurrentOpens, (info) =>
    open(info).catch((error: unknown) => {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    }),
  )
  const handles: T[] & { nextCursor?: string } = opened.filter((handle) => handle !== undefined)
  if (page.nextCursor !== undefined) handles.nextCursor = page.nextCursor
  return handles
}
