import type { NetworkLimits, NetworkService } from '../../spec/index.ts'
import { checkKnown, checkPort, invalid } from '../validate.ts'
import { addressOf } from './addresses.ts'
import { hostOf, isServiceName, serviceDomain } from './hosts.ts'
import type { NormalNetwork, NormalPolicy } from './normal.ts'
import { ruleOf, targetOf } from './rules.ts'
import { transformOf } from './transforms.ts'

const most = { rules: 1000, transforms: 100, services: 50 }

/**
 * Checks a network and returns its normal form, which is frozen. Throws `invalid_argument` with the name of the wrong
 * rule (`network.allow[2]`). Does not resolve presets, secrets or names.
 */
export function normalizeNetwork(network: unknown): NormalNetwork {
  if (network === 'none' || network === 'open') return network
  if (typeof network !== 'object' || network === null || Array.isArray(network))
    throw invalid(
      `There is no network ${JSON.stringify(network) ?? String(network)}.`,
      "Use 'none', 'open' or a policy: { allow: ['github.com'] }.",
    )
  checkKnown(network, ['allow', 'deny', 'transform', 'services', 'audit', 'limits'], '`network`')
  const { allow, deny = [], transform = [], services = {}, audit = false, limits = {} } = network as Given
  if (allow === undefined)
    throw invalid('`network` has no `allow`.', "Name what it may reach: { allow: ['github.com'] }, or [].")
  if (typeof audit !== 'boolean') throw invalid('`network.audit` must be true or false.')
  const rules = listOf(allow, 'allow', most.rules)
  const denied = listOf(deny, 'deny', most.rules)
  if (rules.length + denied.length > most.rules)
    throw invalid(`\`network\` has ${rules.length + denied.length} rules.`, `Use at most ${most.rules}.`)
  const policy: NormalPolicy = {
    allow: rules.map((rule, at) => ruleOf(rule, `allow[${at}]`)),
    deny: denied.map((rule, at) => targetOf(rule, `deny[${at}]`)),
    transform: listOf(transform, 'transform', most.transforms).map((item, at) =>
      transformOf(item, `transform[${at}]`),
    ),
    services: servicesOf(services),
    audit,
    limits: limitsOf(limits),
  }
  return frozen(policy)
}

type Given = { readonly [K in keyof NormalPolicy]?: unknown }

function listOf(value: unknown, name: string, count: number): unknown[] {
  if (!Array.isArray(value)) throw invalid(`\`network.${name}\` must be an array.`)
  if (value.length > count)
    throw invalid(`\`network.${name}\` has ${value.length} entries.`, `Use at most ${count}.`)
  // Spreading turns holes into undefined, which the checks of the entries reject.
  return [...value]
}

function servicesOf(value: unknown): Record<string, NetworkService> {
  if (!isObject(value))
    throw invalid(
      '`network.services` must be an object.',
      "For example { model: { host: '127.0.0.1', port: 8899 } }.",
    )
  const entries = Object.entries(value)
  if (entries.length > most.services)
    throw invalid(`\`network.services\` has ${entries.length} entries.`, `Use at most ${most.services}.`)
  return Object.fromEntries(entries.map(([name, service]) => [name, serviceOf(name, service)]))
}

function serviceOf(name: string, service: unknown): NetworkService {
  const where = `network.services[${JSON.stringify(name)}]`
  if (!isServiceName(name))
    throw invalid(
      `\`${where}\` has an invalid name.`,
      `Use up to 63 lower-case letters, digits and dashes: it becomes NAME.${serviceDomain}.`,
    )
  if (!isObject(service))
    throw invalid(`\`${where}\` must be an object.`, "For example { host: '127.0.0.1', port: 8899 }.")
  checkKnown(service, ['host', 'port'], `\`${where}\``)
  const { host, port } = service
  const address = typeof host === 'string' ? addressOf(host) : undefined
  if (address && !address.single) throw invalid(`\`${where}.host\` is a network.`, 'Use one address or name.')
  return { host: address ? address.address : hostOf(host, `${where}.host`), port: checkPort(port) }
}

function limitsOf(value: unknown): NetworkLimits {
  if (!isObject(value))
    throw invalid('`network.limits` must be an object.', 'For example { connections: 100 }.')
  checkKnown(value, ['connections', 'bytes', 'bytesPerSecond'], '`network.limits`')
  const given = Object.entries(value).filter(([, limit]) => limit !== undefined)
  for (const [name, limit] of given) {
    if (typeof limit === 'number' && Number.isSafeInteger(limit) && limit >= 1) continue
    throw invalid(`\`network.limits.${name}\` is ${String(limit)}.`, 'Use a whole number from 1, or omit it.')
  }
  return Object.fromEntries(given) as NetworkLimits
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  for (const inner of Object.values(value)) frozen(inner)
  return Object.freeze(value)
}
