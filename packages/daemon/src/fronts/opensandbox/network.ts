import { isIP } from 'node:net'
import { type GivenNetwork, includesTarget, type SessionNetwork } from '../../sessions/index.ts'
import {
  allBut,
  allowedBy,
  allowsAll,
  closedNetwork,
  deniedBy,
  type NetworkPlace,
} from '../shared/network.ts'
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
    if (others.length === 0) return 'open'
    const network = allBut(effectiveDenies(egress, true), place)
    if (network) return network
    throw notSupported(
      'A network policy that allows everything but some targets',
      'Use {"defaultAction": "deny"}, and allow targets.',
    )
  }
  if (others.length === 0) return closedNetwork(place)
  return { allow: others.map(({ target }) => target), deny: effectiveDenies(egress, false) }
}

export function policyView(network: SessionNetwork): schemas.NetworkPolicy {
  if (typeof network === 'string') return { defaultAction: network === 'open' ? 'allow' : 'deny', egress: [] }
  const [denied, allowed] = [deniedBy(network), allowedBy(network)]
  const denies = [...denied.hosts, ...denied.cidrs].map((target) => ({ action: 'deny' as const, target }))
  if (allowsAll(network)) return { defaultAction: 'allow', egress: denies }
  return {
    defaultAction: 'deny',
    egress: [
      ...denies,
      ...[...allowed.hosts, ...allowed.cidrs].map((target) => ({ action: 'allow' as const, target })),
    ],
  }
}

/**
 * The first rule that matches decides, but in our policies each deny wins. So a deny counts only if a later allow, or the
 * default, would open its target, and it must not close what an earlier rule allows.
 */
function effectiveDenies(rules: readonly schemas.NetworkRule[], opensRest: boolean): string[] {
  return rules.flatMap(({ action, target }, at) => {
    if (action === 'allow') return []
    const allows = (some: readonly schemas.NetworkRule[]) => some.filter((rule) => rule.action === 'allow')
    const before = allows(rules.slice(0, at))
    if (before.some((rule) => includesTarget(rule.target, target))) return []
    if (!opensRest && !allows(rules.slice(at + 1)).some((rule) => meet(rule.target, target))) return []
    if (before.some((rule) => meet(rule.target, target)))
      throw notSupported('A rule that denies a part of what an earlier rule allows', 'Put deny rules first.')
    return [target]
  })
}

/** Whether a connection can match both. A name can have any address; ports are not compared. */
function meet(one: string, other: string): boolean {
  const [a, b] = [withoutPort(one), withoutPort(other)]
  return isAddress(a) !== isAddress(b) || includesTarget(a, b) || includesTarget(b, a)
}

function withoutPort(target: string): string {
  const bracketed = /^\[([^\]]*)\]/.exec(target)?.[1]
  return bracketed ?? (/^[^:]*:\d+$/.test(target) ? target.slice(0, target.indexOf(':')) : target)
}

function isAddress(target: string): boolean {
  return isIP(target.split('/')[0]!) !== 0
}
