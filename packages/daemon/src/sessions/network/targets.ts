import { BlockList, isIPv4 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { SandboxError } from '@sandkasten/sdk'
import type { NormalRule } from '@sandkasten/sdk/provider'

/** What a rule of a policy opens: hosts, addresses or a preset. */
type Target = Partial<Record<'host' | 'cidr' | 'preset', string>> & { readonly ports?: readonly number[] }

/**
 * The gateway opens a private address if a policy names it. So a policy of a tenant may name only public addresses, and
 * those that the configuration lists.
 */
export function refusePrivate(rules: readonly NormalRule[], allowed: readonly string[]): void {
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address)),
  )
  for (const rule of rules) {
    if (!('cidr' in rule) || isCovered(rule, allowed)) continue
    const [address = ''] = rule.cidr.split('/')
    const isSingle = rule.cidr.endsWith(isIPv4(address) ? '/32' : '/128')
    if (!isPrivate(address) && !(isSingle && own.has(address))) continue
    // Such as 0.0.0.0/0. It opens no private address.
    if (!isSingle && isWide(rule.cidr)) continue
    throw new SandboxError(
      'forbidden',
      `The address ${rule.cidr} is not public, so a policy may not name it.`,
      {
        details: { address: rule.cidr },
        hint: 'Leave it out, or add it to egress.addresses of the daemon.',
      },
    )
  }
}

/** Whether one of the patterns (`github.com`, `*.github.com:443`, `198.51.100.0/24`, `preset:github`) includes the target. */
export function isCovered(target: Target, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => covers(pattern, target))
}

/** Whether the first target of a rule, as text without a port, includes the second: names, patterns and networks. */
export function includesTarget(outer: string, inner: string): boolean {
  if (outer === inner || outer === '*') return true
  return includesNetwork(outer, inner) || (outer.startsWith('*.') && inner.endsWith(outer.slice(1)))
}

function covers(pattern: string, { host, cidr, preset, ports }: Target): boolean {
  if (preset !== undefined) return pattern === `preset:${preset}`
  if (cidr !== undefined) return includesNetwork(pattern, cidr)
  if (host === undefined) return false
  const [, name = '', port] = /^(.*?)(?::(\d+))?$/.exec(pattern) ?? []
  if (port !== undefined && !(ports?.length === 1 && String(ports[0]) === port)) return false
  if (!name.startsWith('*.')) return name === host
  return host.endsWith(name.slice(1)) && host.length >= name.length
}

function includesNetwork(pattern: string, cidr: string): boolean {
  const [outer, inner] = [parts(pattern), parts(cidr)]
  if (!outer || !inner || outer.prefix > inner.prefix || outer.family !== inner.family) return false
  const list = new BlockList()
  list.addSubnet(outer.address, outer.prefix, outer.family)
  return list.check(inner.address, inner.family)
}

function parts(cidr: string): { address: string; prefix: number; family: 'ipv4' | 'ipv6' } | undefined {
  const [address = '', prefix] = cidr.split('/')
  const family = isIPv4(address) ? 'ipv4' : address.includes(':') ? 'ipv6' : undefined
  if (!family) return undefined
  return { address, family, prefix: prefix === undefined ? (family === 'ipv4' ? 32 : 128) : Number(prefix) }
}

/** A network that also has public addresses. */
function isWide(cidr: string): boolean {
  const all = [...notPublic4, ...notPublic6]
  return !all.some((network) => includesNetwork(network, cidr))
}

function isPrivate(address: string): boolean {
  return isIPv4(address) ? private4.check(address) : private6.check(address, 'ipv6')
}

const notPublic4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]
/** Outside of `2000::/3`, and inside of it what is reserved or has an IPv4 address in it. */
const notPublic6 = ['::/3', '4000::/2', '8000::/1', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

// One list per family: a list checks an IPv4 address against its IPv6 networks, too.
const private4 = listOf(notPublic4, 'ipv4')
const private6 = listOf(notPublic6, 'ipv6')

function listOf(networks: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    list.addSubnet(address, Number(prefix), family)
  }
  return list
}
