import type { NetworkPolicy } from '../shared/network.ts'
import { notSupported } from '../shared/request.ts'
import type * as schemas from './schemas.ts'

/** Maps OpenSandbox's policy to a policy for all traffic. Throws for rules that cannot be enforced. */
export function policyOf(given: schemas.NetworkPolicy | undefined): NetworkPolicy | undefined {
  if (!given) return undefined
  const { defaultAction = 'deny', egress = [] } = given
  if (egress.some(({ action }) => action !== defaultAction))
    throw notSupported(
      'A network policy with rules for some targets',
      'Use {"defaultAction": "deny"} or {"defaultAction": "allow"} without rules.',
    )
  return defaultAction === 'deny' ? 'deny-all' : 'allow-all'
}

export function policyView(network: string): object {
  return { defaultAction: network === 'open' ? 'allow' : 'deny', egress: [] }
}
