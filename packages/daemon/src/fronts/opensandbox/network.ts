import type { GivenNetwork, SessionNetwork } from '../../sessions/index.ts'
import { allowedBy, closedNetwork, deniedBy, type NetworkPlace } from '../shared/network.ts'
import { notSupported } from '../shared/request.ts'
import type * as schemas from './schemas.ts'

/** Maps OpenSandbox's policy to a network. Throws for rules that cannot be enforced. */
export function networkFor(
  given: schemas.NetworkPolicy | undefined,
  place: NetworkPlace,
): GivenNetwork | undefined {
  if (!given) return undefined
  const { defaultAction = 'deny', egress = [] } = given
  const others = egress.filter(({ action }) => action !== defaultAction)
  if (defaultAction === 'allow') {
    if (others.length > 0)
      throw notSupported(
        'A network policy that allows everything but some targets',
        'Use {"defaultAction": "deny"}, and allow targets.',
      )
    return 'open'
  }
  if (others.length === 0) return closedNetwork(place)
  return { allow: others.map(({ target }) => target), deny: effectiveDenies(egress) }
}

export function policyView(network: SessionNetwork): schemas.NetworkPolicy {
  if (typeof network === 'string') return { defaultAction: network === 'open' ? 'allow' : 'deny', egress: [] }
  const [denied, allowed] = [deniedBy(network), allowedBy(network)]
  return {
    defaultAction: 'deny',
    egress: [
      ...[...denied.hosts, ...denied.cidrs].map((target) => ({ action: 'deny' as const, target })),
      ...[...allowed.hosts, ...allowed.cidrs].map((target) => ({ action: 'allow' as const, target })),
    ],
  }
}

/**
 * The first rule that matches decides, but in our policies each deny wins. So a deny counts only if a later allow would
 * open its target, and it must not close what an earlier rule allows.
 */
function effectiveDenies(rules: readonly schemas.NetworkRule[]): string[] {
  return rules.flatMap(({ action, target }, at) => {
    if (action === 'allow') return []
    const allows = (some: readonly schemas.NetworkRule[]) => some.filter((rule) => rule.action === 'allow')
    if (allows(rules.slice(0, at)).some((rule) => includes(rule.target, target))) return []
    if (!allows(rules.slice(at + 1)).some((rule) => meet(rule.target, target))) return []
    if (allows(rules.slice(0, at)).some((rule) => meet(rule.target, target)))
      throw notSupported('A rule that denies a part of what an earlier rule allows', 'Put deny rules first.')
    return [target]
  })
}

function meet(a: string, b: string): boolean {
  return includes(a, b) || includes(b, a)
}

function includes(pattern: string, target: string): boolean {
  return pattern === target || (pattern.startsWith('*.') && target.endsWith(pattern.slice(1)))
}
