import type { NormalPolicy } from '@sandkasten/sdk/provider'
import { presetHosts } from './presets/hosts.ts'
import { packageRules } from './presets/packages.ts'
import type { GatewayPolicy, GatewayRule } from './wire.ts'

/** Open connections of a sandbox at a time, unless the policy says otherwise. */
const CONNECTIONS = 512

/** How long the registries of this machine count as known. Asking its programs takes most of a second. */
const PACKAGES_MS = 10 * 60_000

/** The policy as the gateway takes it: presets and services are plain rules. */
export async function gatewayPolicy(
  policy: NormalPolicy,
  upstreamCa: readonly string[] = [],
): Promise<GatewayPolicy> {
  const { allow, deny, services, audit, limits } = policy
  const rules = await Promise.all(allow.map((rule) => ('preset' in rule ? presetRules(rule.preset) : [rule])))
  return {
    allow: [...rules.flat(), ...Object.entries(services).map(serviceRule)],
    deny,
    transform: policy.transform,
    ...(upstreamCa.length > 0 ? { upstreamCa } : {}),
    audit,
    limits: {
      connections: limits.connections ?? CONNECTIONS,
      bytesPerSecond: limits.bytesPerSecond ?? null,
      bytes: limits.bytes ?? null,
    },
  }
}

/** Names of all secrets in the policy, without duplicates. */
export function secretNames({ transform }: NormalPolicy): string[] {
  const values = transform.flatMap(({ headers }) => Object.values(headers))
  return [...new Set(values.flatMap((value) => (typeof value === 'string' ? [] : [value.secret])))]
}

/** The closed policy: what `none` is for a sandbox that was started with a policy. */
export const closedPolicy: NormalPolicy = Object.freeze({
  allow: [],
  deny: [],
  transform: [],
  services: {},
  audit: false,
  limits: {},
})

let packages: { at: number; rules: Promise<GatewayRule[]> } | undefined

function presetRules(preset: string): readonly GatewayRule[] | Promise<readonly GatewayRule[]> {
  if (preset !== 'packages') return presetHosts[preset as keyof typeof presetHosts]
  if (!packages || performance.now() - packages.at > PACKAGES_MS)
    packages = { at: performance.now(), rules: packageRules() }
  return packages.rules
}

function serviceRule([service, { host, port }]: [string, { host: string; port: number }]): GatewayRule {
  return { service, to: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}` }
}
