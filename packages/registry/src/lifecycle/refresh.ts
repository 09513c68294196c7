import { SandboxError, type SandboxInfo, type SandboxProvider } from '@sandkasten/sdk'
import { type Context, labels } from '../context.ts'
import type { SandboxRow } from '../store/index.ts'
import { request } from './deadline.ts'
import { reasonText } from './reason.ts'
import { check } from './settle.ts'

/** A row as it is now, and why the provider could not be asked. */
export interface Refreshed {
  readonly row: SandboxRow
  readonly problem?: string
}

/** Asks the providers of the rows, in parallel. One that does not answer in time is a remark, not a failure. */
export async function refresh(
  context: Context,
  rows: readonly SandboxRow[],
  { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
): Promise<Refreshed[]> {
  const accounts = Map.groupBy(rows, (row) => `${row.provider} ${row.credentials_id ?? ''}`)
  const refreshed = new Map<string, Refreshed>()
  await Promise.all(
    [...accounts.values()].map(async (mine) => {
      const asked = mine.filter((row) => row.live === 1 && row.provider_sandbox_id !== null)
      if (asked.length === 0) return
      const first = asked[0]!
      const limit = { ms: timeoutMs, signal, what: `Asking ${first.provider} for its sandboxes` }
      try {
        await request(limit, async (signal) => {
          const provider = await context.providers.of(first)
          const infos = await infosOf(context, provider, signal)
          await Promise.all(
            asked.map(async (row) => refreshed.set(row.id, await refreshRow(context, row, infos, signal))),
          )
        })
      } catch (error) {
        signal?.throwIfAborted()
        for (const row of asked)
          if (!refreshed.has(row.id)) refreshed.set(row.id, { row, problem: reasonText(error) })
      }
    }),
  )
  return rows.map((row) => refreshed.get(row.id) ?? { row })
}

/** What remains of a remark after the provider has confirmed the row: the reason of a status that needs one. */
export function remarkOf({
  status,
  error_message,
}: Pick<SandboxRow, 'status' | 'error_message'>): string | null {
  return status === 'failed' || status === 'unknown' ? error_message : null
}

/** Undefined: the provider cannot list them, so each is asked for. */
async function infosOf(
  context: Context,
  provider: SandboxProvider,
  signal: AbortSignal,
): Promise<Map<string, SandboxInfo> | undefined> {
  if (!provider.createOptions.has('labels')) return undefined
  const infos = await provider.list({ labels: { [labels.registry]: context.registryId }, signal })
  return new Map(infos.map((info) => [info.sandboxId, info]))
}

async function refreshRow(
  context: Context,
  row: SandboxRow,
  infos: Map<string, SandboxInfo> | undefined,
  signal: AbortSignal,
): Promise<Refreshed> {
  const info = infos?.get(row.provider_sandbox_id!)
  const at = context.now()
  if (info && info.status === row.status) {
    const expires_at = info.expiresAt?.getTime() ?? null
    const seen = { last_checked_at: at, expires_at, error_message: remarkOf(row) }
    await context.store.sandboxes.noteSeen(row, seen)
    return { row: { ...row, ...seen } }
  }
  try {
    // The provider disagrees: ask for this one, under the lease, because the answer changes the row.
    const checked = await context.leases.operate(row.id, 'check', (lease) => check({ context, lease }), {
      waitMs: 0,
      signal,
    })
    return { row: checked ?? row }
  } catch (error) {
    // An operation changes it right now.
    if (SandboxError.is(error, 'conflict')) return { row }
    if (SandboxError.is(error, 'not_found'))
      return { row: (await context.store.sandboxes.byId(row.id)) ?? row }
    if (signal.aborted) throw error
    return { row, problem: reasonText(error) }
  }
}
