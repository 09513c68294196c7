import { isIP, isIPv4 } from 'node:net'
import type { NormalRule } from '@sandkasten/sdk/provider'
import type { Learned } from './egress-watch.ts'
import type { SessionPolicy } from './policy.ts'

/** The policy with rules for exactly what was learned, and without `audit`. */
export function learnedPolicy(policy: SessionPolicy, learned: Learned): SessionPolicy {
  const ports = new Map<string, Set<number>>()
  for (const { host, address, port } of learned.values()) {
    const target = host ?? address
    ports.set(target, (ports.get(target) ?? new Set()).add(port))
  }
  const services = policy.services.filter((name) => ports.has(`${name}.sandkasten.internal`))
  const allow = [...ports]
    .filter(([target]) => !target.endsWith('.sandkasten.internal'))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([target, found]) =>
      ruleOf(
        target,
        [...found].sort((a, b) => a - b),
      ),
    )
  return { ...policy, allow, services, audit: false }
}

function ruleOf(target: string, ports: readonly number[]): NormalRule {
  if (isIP(target)) return { cidr: `${target}/${isIPv4(target) ? 32 : 128}`, ports }
  // Without ports, a host means these two.
  return ports.every((port) => port === 443 || port === 80) ? { host: target } : { host: target, ports }
}
