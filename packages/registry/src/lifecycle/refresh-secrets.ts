import type { Network } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { SecretChange } from '../registry.ts'
import type { SandboxRow, ScopeKey } from '../store/index.ts'
import type { SandboxSettings } from '../types.ts'
import { networkOf, setNetwork } from './network.ts'

/** How long to wait for another operation on a sandbox. */
const waitMs = 10_000
const atOnce = 8

/**
 * Gives the sandboxes that use a secret its present value: sets their network again, for which the provider asks for the
 * value. One that does not run gets it at its next start.
 */
export async function refreshSecrets(context: Context, scope: ScopeKey, name: string): Promise<SecretChange> {
  const rows = (await context.store.sandboxes.list(scope)).filter((row) => uses(row, name))
  const sandboxes: string[] = []
  const failed: Array<{ sandbox: string; error: unknown }> = []
  const next = rows.values()
  const worker = async () => {
    for (const row of next)
      try {
        await context.leases.operate(
          row.id,
          'network',
          async (lease) => {
            // Another process may have replaced it meanwhile.
            const network = usedNetwork(lease.row, name)
            if (network !== undefined && lease.row.provider_sandbox_id !== null)
              await setNetwork({ context, lease }, network)
          },
          { waitMs },
        )
        sandboxes.push(row.name)
      } catch (error) {
        failed.push({ sandbox: row.name, error })
      }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return { sandboxes: sandboxes.sort(), failed }
}

function uses(row: SandboxRow, name: string): boolean {
  return row.status !== 'failed' && usedNetwork(row, name) !== undefined
}

/** The network of the row, if it names the secret. */
function usedNetwork(row: SandboxRow, name: string): Network | undefined {
  const network = networkOf(JSON.parse(row.settings) as SandboxSettings)
  if (typeof network !== 'object') return undefined
  const values = (network.transform ?? []).flatMap(({ headers }) => Object.values(headers))
  return values.some((value) => typeof value !== 'string' && value.secret === name) ? network : undefined
}
