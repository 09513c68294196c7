import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'

/**
 * Network `open`: `pasta` joins the sandbox's network namespace to the world from user space. It opens the connections on the host as itself,
 * so nothing is bridged, routed or forwarded, and no firewall rule is needed. `{pid}` becomes the sandbox's PID 1 (see the shim).
 *
 * Closed on purpose: no port of the host's loopback can be reached through the gateway address (`--no-map-gw`), and no port is forwarded in
 * either direction. Open by nature: what the host itself can reach by its other addresses, services on its own network included.
 */
export function pastaArgv(program: string, nameservers: readonly string[]): string[] {
  const loopback = nameservers.some(isLoopback)
  return [
    program,
    '--quiet',
    '--config-net',
    '--no-map-gw',
    '--tcp-ports',
    'none',
    '--udp-ports',
    'none',
    '--tcp-ns',
    'none',
    '--udp-ns',
    'none',
    // Without a user name of its own it may not open /dev/net/tun; it drops its capabilities and all of the file system by itself.
    '--runas',
    '0',
    // A resolver on the host's loopback is out of reach from inside: pasta answers for it on an address that nobody has.
    ...(loopback ? ['--dns-forward', FORWARDED_RESOLVER] : []),
    '{pid}',
  ]
}

/** Link-local, so no router and no machine beyond the next cable can be meant. */
const FORWARDED_RESOLVER = '169.254.53.53'

/** What pasta itself takes from the sandbox's limits: its buffers, and its one process. */
export const PASTA_MEMORY_BYTES = 36 * 1024 * 1024
export const PASTA_PIDS = 1

/** For the sandbox's `/etc/resolv.conf`. Without a network there is no resolver, so that a lookup fails at once instead of timing out. */
export function resolvConf(network: 'none' | 'open', nameservers: readonly string[]): string {
  if (network === 'none') return '# network: none\n'
  const reachable = nameservers.filter((address) => !isLoopback(address))
  const all = reachable.length === nameservers.length ? nameservers : [FORWARDED_RESOLVER, ...reachable]
  return all.map((address) => `nameserver ${address}\n`).join('')
}

export function hostNameservers(): string[] {
  let text = ''
  try {
    text = readFileSync('/etc/resolv.conf', 'utf8')
  } catch {
    // A machine without one resolves nothing by name, and neither does the sandbox.
  }
  return text
    .split('\n')
    .map((line) => /^nameserver\s+(\S+)/.exec(line)?.[1])
    .filter((address): address is string => address !== undefined && isIP(address.split('%')[0]!) !== 0)
}

const isLoopback = (address: string) => address.startsWith('127.') || address === '::1'
