import { notSupported } from '../shared/request.ts'
import type { NetworkPolicy } from './schemas.ts'

/**
 * A sandbox here has a network or none. What a policy comes to is one of the two, or refused: a rule that nothing would hold is never
 * taken silently. Undefined: nothing was said, and the configuration's default holds.
 */
export function networkOf(policy: NetworkPolicy | undefined): 'none' | 'open' | undefined {
  if (!policy) return undefined
  const { defaultAction = 'deny', egress = [] } = policy
  if (egress.some(({ action }) => action !== defaultAction))
    throw notSupported(
      'A network policy with rules for some targets',
      'Use {"defaultAction": "deny"} or {"defaultAction": "allow"}: a sandbox has a network here, or none.',
    )
  return defaultAction === 'deny' ? 'none' : 'open'
}

export function policyOf(network: string): object {
  return { defaultAction: network === 'open' ? 'allow' : 'deny', egress: [] }
}
