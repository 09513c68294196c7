import type { Network, NetworkLimits, NetworkPolicy, RequestTransform } from '../spec/index.ts'

/** Translates networks between the API and the SDK. Rules, headers and services have the same form in both. */

export function networkBody(network: Network): unknown {
  if (typeof network !== 'object' || network === null) return network
  const { transform, limits, ...rest } = network
  return { ...rest, transform: transform?.map(transformBody), limits: limits && limitsBody(limits) }
}

function transformBody({ match, headers }: RequestTransform) {
  const { method, ...rest } = match
  return { match: { methods: typeof method === 'string' ? [method] : method, ...rest }, headers }
}

function limitsBody({ bytesPerSecond, ...rest }: NetworkLimits) {
  return { ...rest, bytes_per_second: bytesPerSecond }
}

/** The network of a session. Daemons before 0.2 have only a mode. */
export function networkOf(wire: unknown, mode: unknown): Network | undefined {
  if (typeof wire === 'object' && wire !== null) {
    const { limits, ...rest } = wire as NetworkPolicy & { limits?: WireLimits | null }
    return limits ? { ...rest, limits: limitsOf(limits) } : rest
  }
  const named = wire ?? mode
  return named === 'none' || named === 'open' ? named : undefined
}

type WireLimits = { [name in 'connections' | 'bytes' | 'bytes_per_second']?: number | null }

function limitsOf({ connections, bytes, bytes_per_second }: WireLimits): NetworkLimits {
  const all = { connections, bytes, bytesPerSecond: bytes_per_second }
  return Object.fromEntries(Object.entries(all).filter(([, limit]) => limit !== null && limit !== undefined))
}
