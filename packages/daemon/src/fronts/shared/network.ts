import type {
  GivenNetwork,
  GivenPolicy,
  ProviderFacts,
  Rules,
  SessionNetwork,
  SessionPolicy,
} from '../../sessions/index.ts'

/** A policy for all traffic of a sandbox. */
export type NetworkPolicy = 'allow-all' | 'deny-all'

/** What decides whether a sandbox gets a policy, which can change later, or `none`, which cannot. */
export interface NetworkPlace {
  readonly rules: Pick<Rules, 'allowed_networks'>
  readonly provider: Pick<ProviderFacts, 'capabilities'>
}

/** The network that reaches nothing. A policy, if there are policies here, so that a running sandbox can get rules. */
export function closedNetwork({ rules, provider }: NetworkPlace): GivenNetwork {
  const hasPolicies = rules.allowed_networks.includes('policy') && provider.capabilities.egress !== undefined
  return hasPolicies ? { allow: [] } : 'none'
}

/** The network for a policy for all traffic. Undefined: the configured default applies. */
export function networkOf(policy: NetworkPolicy | undefined, place: NetworkPlace): GivenNetwork | undefined {
  return policy && (policy === 'allow-all' ? 'open' : closedNetwork(place))
}

/**
 * All of the public internet but these targets. Undefined, where there are no policies: then a front refuses. It is a
 * policy, so the sandbox has TCP and DNS, and no UDP.
 */
export function allBut(deny: readonly string[], { rules, provider }: NetworkPlace): GivenPolicy | undefined {
  const hasPolicies = rules.allowed_networks.includes('policy') && provider.capabilities.egress !== undefined
  return hasPolicies ? { allow: ['*', '0.0.0.0/0', '::/0'], deny } : undefined
}

/** Whether the policy allows what `allBut` does. */
export function allowsAll({ allow }: SessionPolicy): boolean {
  const has = (target: string) =>
    allow.some((rule) => ('host' in rule ? rule.host : 'cidr' in rule ? rule.cidr : '') === target)
  return ['*', '0.0.0.0/0', '::/0'].every(has)
}

export function isClosed(network: SessionNetwork): boolean {
  if (typeof network === 'string') return network === 'none'
  return network.allow.length === 0 && network.services.length === 0 && !network.audit
}

/** The allowed hosts and addresses of a policy, as text. */
export function allowedBy({ allow }: SessionPolicy): { hosts: string[]; cidrs: string[] } {
  const hosts: string[] = []
  const cidrs: string[] = []
  for (const rule of allow)
    if ('host' in rule) hosts.push(...(rule.ports?.map((port) => `${rule.host}:${port}`) ?? [rule.host]))
    else if ('cidr' in rule) cidrs.push(rule.cidr)
    else hosts.push(`preset:${rule.preset}`)
  return { hosts, cidrs }
}

/** The deny rules of a policy, as text. */
export function deniedBy({ deny }: SessionPolicy): { hosts: string[]; cidrs: string[] } {
  return allowedBy({ allow: deny } as SessionPolicy)
}
