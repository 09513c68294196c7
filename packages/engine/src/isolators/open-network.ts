import { BlockList, isIP, isIPv4 } from 'node:net'
import { SandboxError } from '@sandkasten/sdk'

/**
 * A sandbox with the network `open` reaches the public internet, and other networks only if `allow` lists them.
 * The runner turns these rules into a packet filter of the sandbox's network namespace (`runner/src/fence`).
 */
export interface OpenNetwork {
  /**
   * Addresses (`10.0.0.5`) and networks (`10.1.0.0/16`) to open although they are closed by default. An address of
   * this machine opens only if it is listed as an address: a network that contains it does not open it.
   */
  readonly allow?: readonly string[]
}

/**
 * Private, shared, link-local, documentation, benchmarking, multicast and reserved networks, and clouds' metadata
 * addresses.
 */
export const CLOSED_IPV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
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
  // Azure's metadata and DNS service: the only one at a public address.
  '168.63.129.16/32',
] as const

/** The only open IPv6 networks: global unicast addresses, and public IPv4 addresses behind a NAT64. */
const OPEN_IPV6 = ['2000::/3', '64:ff9b::/96'] as const

/** Exceptions: IETF protocols with Teredo, documentation, and 6to4, which contains IPv4 addresses. */
export const CLOSED_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'] as const

const MAX_ALLOWED = 256

/** The first rule that matches decides. `resolvers` answer DNS and nothing else. */
export function openRules({ allow = [] }: OpenNetwork, resolvers: readonly string[]): string[] {
  const named = checkedAllow(allow)
  const isAddress = (cidr: string) => cidr.endsWith(isIPv4(cidr.split('/')[0]!) ? '/32' : '/128')
  const accept = (cidr: string) => `accept ${cidr}`
  const reject = (cidr: string) => `reject ${cidr}`
  return [
    ...resolvers.map((address) => `accept ${cidrOf(address)} 53`),
    ...named.filter(isAddress).map(accept),
    'own',
    ...named.filter((cidr) => !isAddress(cidr)).map(accept),
    ...CLOSED_IPV4.map(reject),
    ...CLOSED_IPV4.map(behindNat64).map(reject),
    ...CLOSED_IPV6.map(reject),
    ...OPEN_IPV6.map(accept),
    'reject ::/0',
    'accept 0.0.0.0/0',
  ]
}

/** Each as a network in CIDR notation. Throws for malformed text and for networks that no packet could reach. */
export function checkedAllow(allow: readonly string[]): string[] {
  if (allow.length > MAX_ALLOWED)
    throw wrong(`${allow.length} networks are too many`, `List at most ${MAX_ALLOWED}.`)
  return allow.map((text) => {
    const [address = '', length, ...rest] = text.split('/')
    const most = isIPv4(address) ? 32 : 128
    const bits = length === undefined ? most : /^\d{1,3}$/.test(length) ? Number(length) : -1
    if (isIP(address) === 0 || address.includes('%') || rest.length > 0 || bits < 0 || bits > most)
      throw wrong(
        `“${text}” is not an address or a network`,
        'Write it as 10.0.0.5, 10.1.0.0/16 or fd12:3456::/48.',
      )
    if (isIPv4(address) ? unroutable4.check(address) : unroutable6.check(address, 'ipv6'))
      throw wrong(
        `“${text}” cannot be opened: loopback, multicast and IPv4-mapped addresses never leave the sandbox`,
        'Name an address of a network interface.',
      )
    return `${address}/${bits}`
  })
}

// Two lists, because a list with ::ffff:0:0/96 matches every IPv4 address.
const unroutable4 = new BlockList()
unroutable4.addSubnet('127.0.0.0', 8)
unroutable4.addSubnet('224.0.0.0', 4)
const unroutable6 = new BlockList()
unroutable6.addAddress('::1', 'ipv6')
unroutable6.addSubnet('::ffff:0:0', 96, 'ipv6')
unroutable6.addSubnet('ff00::', 8, 'ipv6')

function behindNat64(cidr: string): string {
  const [address, length] = cidr.split('/') as [string, string]
  return `64:ff9b::${address}/${96 + Number(length)}`
}

const cidrOf = (address: string) => `${address}/${isIPv4(address) ? 32 : 128}`

const wrong = (message: string, hint: string) =>
  new SandboxError('invalid_argument', `openNetwork.allow: ${message}`, { hint })
