import { SandboxError, type SandboxProvider } from '@sandkasten/sdk'
import { type Context, labels } from '../context.ts'
import type { SandboxRow } from '../store/index.ts'
import { request } from './deadline.ts'

/** The labels of a sandbox that is created for the row under its present lease. */
export function labelsOf(context: Context, row: SandboxRow): Record<string, string> {
  return {
    [labels.registry]: context.registryId,
    [labels.sandbox]: row.id,
    [labels.attempt]: String(row.lease_token),
  }
}

/**
 * Destroys the sandboxes that earlier and present attempts made for a row that has none, and the one named by the row.
 * Returns their ids. Never touches a sandbox of another registry, of another row, or of a later attempt.
 *
 * The row's lease must be held, except by an attempt that cleans up after itself.
 */
export async function removeLeftovers(
  context: Context,
  provider: SandboxProvider,
  row: SandboxRow,
  signal?: AbortSignal,
): Promise<string[]> {
  const limit = {
    ms: context.timeouts.cleanUpMs,
    signal,
    what: `Removing what was created for “${row.name}”`,
  }
  return request(limit, async (signal) => {
    const found = new Set<string>()
    if (row.provider_sandbox_id !== null) found.add(row.provider_sandbox_id)
    for (const id of await attemptsOf(context, provider, row, signal)) found.add(id)
    for (const id of found) await provider.destroy(id, { signal })
    return [...found]
  })
}

async function attemptsOf(
  context: Context,
  provider: SandboxProvider,
  row: SandboxRow,
  signal: AbortSignal,
): Promise<string[]> {
  if (!provider.createOptions.has('labels')) return []
  const { [labels.attempt]: attempt, ...wanted } = labelsOf(context, row)
  const infos = await provider.list({ labels: wanted, signal })
  return infos
    .filter(({ labels: given, status }) => {
      // A provider that does not filter must not cost another caller a sandbox.
      const isOurs = Object.entries(wanted).every(([name, value]) => given[name] === value)
      const made = Number(given[labels.attempt])
      return isOurs && made <= Number(attempt) && status !== 'destroyed'
    })
    .map(({ sandboxId }) => sandboxId)
}

/** After these errors of a create, nothing can exist. After all others, the provider may still make a sandbox. */
export function madeNothing(error: unknown): boolean {
  return SandboxError.is(
    error,
    'invalid_argument',
    'unsupported',
    'sdk_missing',
    'unauthenticated',
    'forbidden',
    'quota_exceeded',
    'rate_limited',
    'conflict',
  )
}
