import { SandboxError } from '../../errors.ts'
import type { NormalPolicy, NormalTransform } from './normal.ts'

/** What a vendor's policies can express, besides names without ports. */
export interface VendorAbilities {
  /** The provider's name, and the vendor's name for people. */
  readonly provider: string
  readonly vendor: string
  readonly addresses: 'ipv4' | 'all'
  /** The host `*` in `allow`. */
  readonly everyName: boolean
  /** Networks in `deny`. */
  readonly deny: boolean
  /** `host`: headers for all requests to a host. `request`: also by path and method. */
  readonly transform: 'none' | 'host' | 'request'
}

/** The parts of a policy in plain lists. */
export interface VendorPolicy {
  readonly hosts: readonly string[]
  readonly cidrs: readonly string[]
  readonly deniedCidrs: readonly string[]
}

/** Splits a policy into lists. Throws `unsupported` for the first rule that the vendor cannot enforce, and names it. */
export function vendorPolicy(policy: NormalPolicy, can: VendorAbilities): VendorPolicy {
  const refuse = (rule: string, what: string, hint: string) => unsupportedRule(can, rule, what, hint)
  if (Object.keys(policy.services).length > 0)
    throw refuse('services', 'services of this machine', 'Omit them, or use the engine or a daemon.')
  if (policy.audit) throw refuse('audit', 'a learning mode', 'Omit it.')
  if (Object.keys(policy.limits).length > 0) throw refuse('limits', 'limits of traffic', 'Omit them.')
  const [hosts, cidrs, deniedCidrs]: [string[], string[], string[]] = [[], [], []]
  for (const [at, rule] of policy.allow.entries()) {
    const place = `allow[${at}]`
    if ('preset' in rule) throw refuse(place, 'presets', 'Name the hosts.')
    if (rule.ports !== undefined || ('protocol' in rule && rule.protocol !== undefined))
      throw refuse(place, 'rules for ports and protocols', 'Omit the port.')
    if ('host' in rule && rule.host === '*' && !can.everyName)
      throw refuse(place, 'rule for all names', "Name the hosts, or use network: 'open'.")
    if ('host' in rule) hosts.push(rule.host)
    else cidrs.push(addresses(rule.cidr, place))
  }
  for (const [at, rule] of policy.deny.entries()) {
    const place = `deny[${at}]`
    if (!can.deny) throw refuse(place, 'exceptions from what is allowed', 'Allow less instead.')
    if ('host' in rule) throw refuse(place, 'denied names', 'Deny its addresses, or allow less.')
    if (rule.ports !== undefined) throw refuse(place, 'rules for ports', 'Omit the port.')
    deniedCidrs.push(addresses(rule.cidr, place))
  }
  for (const [at, { match }] of policy.transform.entries()) {
    const place = `transform[${at}]`
    if (can.transform === 'none')
      throw refuse(place, 'headers that are added outside of the sandbox', 'Omit the transform.')
    if (can.transform === 'host' && (match.path !== undefined || match.methods !== undefined))
      throw refuse(place, 'transforms for a path or method', 'Match the host only.')
  }
  return { hosts, cidrs, deniedCidrs }

  function addresses(cidr: string, place: string): string {
    if (can.addresses === 'all' || !cidr.includes(':')) return cidr
    throw refuse(place, 'rules for IPv6 addresses', 'Omit it.')
  }
}

/** The transforms of each host. Vendors use those of the closest pattern only, so it gets those of wider ones, too. */
export function transformsByHost(
  transforms: readonly NormalTransform[],
  hosts: readonly string[],
): Map<string, NormalTransform[]> {
  return new Map(
    hosts.map((host) => [host, transforms.filter(({ match }) => covers(match.host, host))] as const),
  )
}

/** Whether all names of the second pattern match the first. */
export function covers(pattern: string, host: string): boolean {
  return pattern === host || pattern === '*' || (pattern.startsWith('*.') && host.endsWith(pattern.slice(1)))
}

function unsupportedRule(
  { provider, vendor }: VendorAbilities,
  rule: string,
  what: string,
  hint: string,
): SandboxError {
  return new SandboxError('unsupported', `\`network.${rule}\`: ${vendor} has no ${what}.`, {
    provider,
    details: { option: 'network', rule },
    hint,
  })
}
