import type { NetworkPolicy } from '../shared/network.ts'

/**
 * Daytona's sandboxes have a network unless it is blocked. Where the configuration does not allow
 * the network `none`, blocking leaves the configured default.
 */
export function policyOf(
  { networkBlockAll }: { readonly networkBlockAll?: boolean },
  allowed: readonly string[],
): NetworkPolicy | undefined {
  if (networkBlockAll === undefined) return undefined
  if (!networkBlockAll) return 'allow-all'
  return allowed.includes('none') ? 'deny-all' : undefined
}
