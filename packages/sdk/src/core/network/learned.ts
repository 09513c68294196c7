import { addressOf } from './addresses.ts'
import { serviceDomain } from './hosts.ts'
import type { NormalRule } from './normal.ts'

/** What a gateway reports about one connection, request or lookup. */
export interface ReachedEvent {
  readonly kind: string
  readonly verdict: string
  readonly host: string | null
  readonly address: string | null
  readonly port: number | null
}

/** The most targets that are remembered: as many rules as a policy may have. */
const mostTargets = 1000

/** Collects where a sandbox connected to, to learn the policy that would have sufficed. */
export class ReachedTargets {
  /** By name or address. */
  readonly #ports = new Map<string, Set<number>>()
  #size = 0

  /** Lookups and what was refused teach nothing. */
  add({ kind, verdict, host, address, port }: ReachedEvent): void {
    if (kind === 'dns' || port === null || (verdict !== 'allowed' && verdict !== 'audit')) return
    const target = host ?? address
    if (target === null) return
    const ports = this.#ports.get(target) ?? new Set()
    if (ports.has(port) || this.#size >= mostTargets) return
    this.#size += 1
    this.#ports.set(target, ports.add(port))
  }

  /** A copy, to which more can be added. */
  copy(): ReachedTargets {
    const copy = new ReachedTargets()
    for (const [target, ports] of this.#ports) copy.#ports.set(target, new Set(ports))
    copy.#size = this.#size
    return copy
  }

  /** Rules for exactly these targets, in the order of their names. */
  rules(): NormalRule[] {
    const sorted = [...this.#ports].sort(([a], [b]) => (a < b ? -1 : 1))
    return sorted
      .filter(([target]) => !target.endsWith(`.${serviceDomain}`))
      .map(([target, ports]) =>
        ruleOf(
          target,
          [...ports].sort((a, b) => a - b),
        ),
      )
  }

  hasService(name: string): boolean {
    return this.#ports.has(`${name}.${serviceDomain}`)
  }
}

function ruleOf(target: string, ports: readonly number[]): NormalRule {
  const address = addressOf(target)
  if (address) return { cidr: address.cidr, ports }
  // Without ports, a host means these two.
  return ports.every((port) => port === 443 || port === 80) ? { host: target } : { host: target, ports }
}
