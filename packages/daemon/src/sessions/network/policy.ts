import type { Network, NetworkPolicy, SecretValue } from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import { type NormalPolicy, normalizeNetwork } from '@sandkasten/sdk/provider'
import type { DaemonConfig } from '../../config/index.ts'
import type { Session } from '../context.ts'
import { isCovered, refusePrivate } from './targets.ts'

/**
 * A network as a caller gives it. Services are names: their addresses are in the configuration. The SDK's form with
 * addresses is accepted, too, if each is the one that `shownPolicy` shows.
 */
export type GivenNetwork = 'none' | 'open' | GivenPolicy
export interface GivenPolicy extends Omit<NetworkPolicy, 'services'> {
  readonly services?: readonly string[] | Readonly<Record<string, unknown>>
}

/** The checked policy of a session. It has no secret values: literal headers of fronts are secrets; see `literals.ts`. */
export interface SessionPolicy extends Omit<NormalPolicy, 'services'> {
  readonly services: readonly string[]
}
export type SessionNetwork = 'none' | 'open' | SessionPolicy

export type NetworkMode = 'none' | 'open' | 'policy'

const mostBytes = 131_072

export function modeOf(network: GivenNetwork | SessionNetwork): NetworkMode {
  return typeof network === 'string' ? network : 'policy'
}

/** Checks a network against the configuration as it applies to the project. */
export function checkedNetwork(
  given: GivenNetwork,
  { egress, allowed_networks }: Pick<DaemonConfig, 'egress' | 'allowed_networks'>,
): SessionNetwork {
  if (typeof given === 'string') return normalizeNetwork(given) as 'none' | 'open'
  const { services: asked = [], ...rest } = given
  if (Buffer.byteLength(JSON.stringify(given)) > mostBytes)
    throw new SandboxError('too_large', `The network policy is larger than ${mostBytes} bytes.`)
  const { services: _, limits, ...policy } = normalizeNetwork(rest) as NormalPolicy
  const services = serviceNames(asked)
  for (const name of services)
    if (!Object.hasOwn(egress.services, name))
      throw new SandboxError('forbidden', `There is no service ${JSON.stringify(name)} here.`, {
        hint: `Use ${Object.keys(egress.services).join(', ') || 'none'}, or add it to egress.services.`,
      })
  refusePrivate(policy.allow, egress.addresses)
  if (policy.audit && !allowed_networks.includes('open'))
    throw new SandboxError(
      'forbidden',
      'The network open is not allowed here, and audit: true reaches as much.',
      {
        hint: 'Leave audit out, or add open to allowed_networks.',
      },
    )
  return { ...policy, services, limits: limitsOf(limits, egress.max) }
}

/** The network for the provider, with the addresses of services. */
export function providerNetwork(network: SessionNetwork, { egress }: Pick<DaemonConfig, 'egress'>): Network {
  if (typeof network === 'string') return network
  const known = network.services.filter((name) => Object.hasOwn(egress.services, name))
  return { ...network, services: Object.fromEntries(known.map((name) => [name, egress.services[name]!])) }
}

export function networkOfRow({ network, network_policy }: Pick<Session, 'network' | 'network_policy'>) {
  return network_policy === null
    ? (network as 'none' | 'open')
    : (JSON.parse(network_policy) as SessionPolicy)
}

export function networkColumns(network: SessionNetwork): Pick<Session, 'network' | 'network_policy'> {
  return {
    network: modeOf(network),
    network_policy: typeof network === 'string' ? null : JSON.stringify(network),
  }
}

/** What callers see. A service is at the name that sandboxes use, and not at its address. */
export function shownNetwork(network: SessionNetwork) {
  if (typeof network === 'string') return network
  const { services, limits, ...policy } = network
  const { bytesPerSecond, ...others } = limits
  return {
    ...policy,
    services: Object.fromEntries(services.map((name) => [name, shownService(name)])),
    limits: { ...others, ...(bytesPerSecond === undefined ? {} : { bytes_per_second: bytesPerSecond }) },
  }
}

/** The names of all secrets in the policy, and the hosts that each may be sent to. */
export function secretUses(network: SessionNetwork): Map<string, string[]> {
  const uses = new Map<string, string[]>()
  if (typeof network === 'string') return uses
  for (const { match, headers } of network.transform)
    for (const value of Object.values(headers))
      if (isSecret(value)) uses.set(value.secret, [...(uses.get(value.secret) ?? []), match.host])
  return uses
}

/** Refuses secrets that do not exist, and hosts that a secret may not be sent to. */
export function checkSecrets(
  network: SessionNetwork,
  known: ReadonlyArray<{ readonly name: string; readonly hosts?: readonly string[] }>,
): void {
  for (const [name, hosts] of secretUses(network)) {
    const secret = known.find((one) => one.name === name)
    if (!secret)
      throw new SandboxError(
        'invalid_argument',
        `The network names the secret ${JSON.stringify(name)}, which does not exist.`,
        {
          hint: {
            sdk: 'Set it with putSecret().',
            http: 'Set it with PUT /v1/secrets/{name}.',
            cli: 'Set it with sandkasten secrets set.',
          },
        },
      )
    const other = hosts.find((host) => secret.hosts && !isCovered({ host }, secret.hosts))
    if (other !== undefined)
      throw new SandboxError('forbidden', `The secret ${JSON.stringify(name)} may not be sent to ${other}.`, {
        details: { secret: name, hosts: secret.hosts },
        hint: `It may be sent to ${secret.hosts?.join(', ')}.`,
      })
  }
}

export function isSecret(value: string | SecretValue): value is SecretValue {
  return typeof value !== 'string'
}

function shownService(name: string) {
  return { host: `${name}.sandkasten.internal`, port: 80 }
}

function serviceNames(asked: NonNullable<GivenPolicy['services']>): string[] {
  if (Array.isArray(asked)) return [...new Set(asked as string[])]
  return Object.entries(asked).map(([name, value]) => {
    const { host, port } = (value ?? {}) as { host?: unknown; port?: unknown }
    const shown = shownService(name)
    if (host === shown.host && port === shown.port) return name
    throw new SandboxError('forbidden', 'A network policy cannot choose the address of a service.', {
      hint: `Name services of the daemon: services: [${JSON.stringify(name)}].`,
    })
  })
}

function limitsOf(asked: NormalPolicy['limits'], max: DaemonConfig['egress']['max']): NormalPolicy['limits'] {
  const most = { connections: max.connections, bytes: max.bytes, bytesPerSecond: max.bytes_per_second }
  const names = { connections: 'connections', bytes: 'bytes', bytesPerSecond: 'bytes_per_second' } as const
  const limits = (Object.keys(names) as Array<keyof typeof names>).map((key) => {
    const [value, limit] = [asked[key], most[key]]
    if (value !== undefined && limit !== undefined && value > limit)
      throw new SandboxError(
        'invalid_argument',
        `network.limits.${names[key]} exceeds the limit of ${limit}.`,
        {
          hint: `Ask for less, or raise egress.max.${names[key]}.`,
        },
      )
    return [key, value ?? limit] as const
  })
  return Object.fromEntries(limits.filter(([, value]) => value !== undefined))
}
