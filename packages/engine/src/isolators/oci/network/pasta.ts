import { isIP, isIPv4 } from 'node:net'
import { readText } from '../../../read-files.ts'
import { GATEWAY_RESOLVER, type SandboxNetwork } from '../../isolator.ts'
import { type OpenNetwork, openRules } from '../../open-network.ts'

/**
 * Network `open`: `pasta` connects the sandbox's network namespace from user space. It opens connections on the host
 * itself, so nothing is bridged, routed or forwarded, and the host needs no firewall rule. It runs as an id of the
 * sandbox's range without rights outside its user namespace (`runner/src/shim/open_network.rs`).
 *
 * Inside there is one interface with the same addresses in every sandbox, so the host's network does not show.
 * `openRules` decides what it can reach.
 */
export function openNetwork(input: {
  readonly pasta: string
  readonly stage: string
  /** First id of the sandbox's range, and how many there are. */
  readonly firstId: number
  readonly ids: number
  readonly nameservers: readonly string[]
  readonly open: OpenNetwork
}): { argv: string[]; user: number; rules: string[] } {
  return {
    argv: pastaArgv(input.pasta, `${input.stage}/network`),
    // The last id of the range. No account inside has it.
    user: input.firstId + input.ids - 1,
    rules: openRules(input.open, forwarders(input.nameservers)),
  }
}

/** Addresses that no other host has: 192.0.0.0/29 is set aside for networks such as this one (RFC 7335). */
const INSIDE = {
  v4: { address: '192.0.0.2', bits: '29', gateway: '192.0.0.1', resolver: '192.0.0.3' },
  v6: { address: 'fd73:616e:646b::2', gateway: 'fe80::1', resolver: 'fd73:616e:646b::3' },
} as const

function pastaArgv(program: string, namespace: string): string[] {
  const { v4, v6 } = INSIDE
  return [
    program,
    '--quiet',
    '--config-net',
    // No port of the host's loopback is reachable through the gateway's address.
    '--no-map-gw',
    ...['--tcp-ports', 'none', '--udp-ports', 'none', '--tcp-ns', 'none', '--udp-ns', 'none'],
    ...['--ns-ifname', 'eth0'],
    ...['--address', v4.address, '--netmask', v4.bits, '--gateway', v4.gateway],
    ...['--address', v6.address, '--gateway', v6.gateway],
    // pasta asks the host's own resolver, which may be at an address that is closed to the sandbox.
    ...['--dns-forward', v4.resolver, '--dns-forward', v6.resolver],
    ...['--netns-only', '--no-netns-quit', '--netns', namespace],
  ]
}

/** pasta's own use of the sandbox's limits: its buffers, and its one process. */
export const PASTA_MEMORY_BYTES = 36 * 1024 * 1024
export const PASTA_PIDS = 1

/** The sandbox's `/etc/resolv.conf`. Without a network there is no resolver, so that a lookup fails at once. */
export function resolvConf(network: SandboxNetwork, nameservers: readonly string[]): string {
  if (network === 'none') return '# network: none\n'
  if (network !== 'open') return `nameserver ${GATEWAY_RESOLVER}\n`
  return forwarders(nameservers)
    .map((address) => `nameserver ${address}\n`)
    .join('')
}

/** pasta forwards to a resolver of the same address family. */
function forwarders(nameservers: readonly string[]): string[] {
  const has4 = nameservers.some((address) => isIPv4(address))
  const has6 = nameservers.some((address) => !isIPv4(address))
  return [...(has4 ? [INSIDE.v4.resolver] : []), ...(has6 ? [INSIDE.v6.resolver] : [])]
}

export function hostNameservers(): string[] {
  // Without the file, neither this machine nor the sandbox resolves names.
  return (readText('/etc/resolv.conf') ?? '')
    .split('\n')
    .map((line) => /^nameserver\s+(\S+)/.exec(line)?.[1])
    .filter((address): address is string => address !== undefined && isIP(address.split('%')[0]!) !== 0)
}
