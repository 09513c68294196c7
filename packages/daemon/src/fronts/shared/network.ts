/** A policy for all traffic of a sandbox. Fronts refuse a vendor's policy with rules for some targets only. */
export type NetworkPolicy = 'allow-all' | 'deny-all'

/**
 * The network of a sandbox with this policy. Without a policy it is undefined, and the configured default applies.
 */
export function networkOf(policy: NetworkPolicy | undefined): 'none' | 'open' | undefined {
  return policy && (policy === 'allow-all' ? 'open' : 'none')
}
