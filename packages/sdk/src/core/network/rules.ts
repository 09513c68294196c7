import type { NetworkAddressRule, NetworkHostRule, NetworkPreset } from '../../spec/index.ts'
import { checkKnown, invalid } from '../validate.ts'
import { addressOf } from './addresses.ts'
import { patternOf, serviceDomain } from './hosts.ts'
import type { NormalRule } from './normal.ts'

const presets: readonly NetworkPreset[] = ['github', 'anthropic', 'openai', 'packages']
const mostPorts = 100

/** A rule of `allow`. `at` is its place: `allow[2]`. */
export function ruleOf(rule: unknown, at: string): NormalRule {
  if (isEveryName(rule)) return { host: '*' }
  const preset = presetIn(rule)
  if (preset === undefined) return targetOf(rule, at)
  const known = presets.find((name) => name === preset)
  if (known !== undefined) return { preset: known }
  throw invalid(
    `\`network.${at}\` names an unknown preset: ${JSON.stringify(preset)}.`,
    `Use ${presets.map((name) => `preset:${name}`).join(', ')}, or name the hosts.`,
    { rule: at },
  )
}

/** All names of the public internet, on ports 80 and 443. */
function isEveryName(rule: unknown): boolean {
  if (typeof rule !== 'object' || rule === null) return rule === '*'
  return Object.keys(rule).length === 1 && 'host' in rule && rule.host === '*'
}

/** A rule of `deny`, or one of `allow` that is no preset. */
export function targetOf(rule: unknown, at: string): NetworkHostRule | NetworkAddressRule {
  const where = `network.${at}`
  if (presetIn(rule) !== undefined)
    throw invalid(`\`${where}\` is a preset.`, 'Presets are only in `allow`. Name the hosts.', { rule: at })
  if (typeof rule === 'string') return textRule(rule, where)
  if (typeof rule !== 'object' || rule === null || 'host' in rule === 'cidr' in rule)
    throw invalid(
      `\`${where}\` is not a rule.`,
      "Use text such as 'github.com', { host: 'github.com', ports: [443] } or { cidr: '198.51.100.0/24' }.",
      { rule: at },
    )
  if ('cidr' in rule) {
    checkKnown(rule, ['cidr', 'ports'], `\`${where}\``)
    const { cidr, ports } = rule as { cidr: unknown; ports?: unknown }
    return { cidr: cidrOf(cidr, `${where}.cidr`), ...portsOf(ports, where) }
  }
  checkKnown(rule, ['host', 'ports', 'protocol'], `\`${where}\``)
  const { host, ports, protocol } = rule as { host: unknown; ports?: unknown; protocol?: unknown }
  return {
    host: publicPattern(host, `${where}.host`),
    ...portsOf(ports, where),
    ...protocolOf(protocol, where),
  }
}

/** `host`, `host:port`, `address`, `address:port`, `network`, `[address]:port`. */
function textRule(text: string, where: string): NetworkHostRule | NetworkAddressRule {
  const bracketed = /^\[(?<host>[^\]]*)\](?::(?<port>.*))?$/s.exec(text)
  const withPort = /^(?<host>[^:]*):(?<port>(?!\/\/)[^:]*)$/s.exec(text)
  const { host = text, port } = (bracketed ?? withPort)?.groups ?? {}
  const ports = port === undefined ? {} : portsOf([portIn(port, text, where)], where)
  if (bracketed || addressOf(host) || /^[^a-z]*\/|:.*:/i.test(host))
    return { cidr: cidrOf(host, where), ...ports }
  return { host: publicPattern(host, where), ...ports }
}

function portIn(port: string, text: string, where: string): number {
  if (/^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535) return Number(port)
  throw invalid(
    `\`${where}\` has no port after its colon: ${JSON.stringify(text.slice(0, 100))}.`,
    'Write github.com:22, or github.com without a colon.',
  )
}

/** The normal form of an address or network. */
function cidrOf(value: unknown, where: string): string {
  const shown = JSON.stringify(typeof value === 'string' ? value.slice(0, 100) : value)
  const found = typeof value === 'string' ? addressOf(value) : undefined
  if (!found)
    throw invalid(
      `\`${where}\` is neither an address nor a network: ${shown}.`,
      'Write 198.51.100.7, 198.51.100.0/24, 2001:db8::7 or 2001:db8::/32.',
    )
  if (found.mapped)
    throw invalid(`\`${where}\` is an IPv4 address written as IPv6: ${shown}.`, 'Write the IPv4 address.')
  if (found.network !== undefined)
    throw invalid(
      `\`${where}\` has bits beyond its prefix: ${shown}.`,
      `Write ${found.network} for the network, or ${found.address} for the address.`,
    )
  return found.cidr
}

function publicPattern(value: unknown, where: string): string {
  const host = patternOf(value, where)
  if (host === 'localhost' || host.endsWith('.localhost'))
    throw invalid(
      `\`${where}\` is ${host}, which is the sandbox itself.`,
      "For a service of the machine, use services: { model: { host: '127.0.0.1', port: 8899 } }.",
    )
  if (host === serviceDomain || host.endsWith(`.${serviceDomain}`))
    throw invalid(`\`${where}\` is a service.`, 'A service in `services` needs no rule.')
  return host
}

function portsOf(ports: unknown, where: string): { ports?: number[] } {
  if (ports === undefined) return {}
  const valid = (port: unknown) =>
    Number.isInteger(port) && (port as number) >= 1 && (port as number) <= 65_535
  if (!Array.isArray(ports) || ports.length === 0 || ports.length > mostPorts || ![...ports].every(valid))
    throw invalid(
      `\`${where}.ports\` must be an array of 1 to ${mostPorts} port numbers.`,
      'For example [443], or omit it.',
    )
  return { ports: [...new Set<number>(ports)].sort((a, b) => a - b) }
}

function protocolOf(protocol: unknown, where: string): Pick<NetworkHostRule, 'protocol'> {
  if (protocol === undefined) return {}
  if (protocol === 'tls' || protocol === 'http' || protocol === 'tcp') return { protocol }
  throw invalid(`\`${where}.protocol\` is ${JSON.stringify(protocol)}.`, 'Use tls, http or tcp, or omit it.')
}

function presetIn(rule: unknown): string | undefined {
  if (typeof rule === 'string') return rule.startsWith('preset:') ? rule.slice(7, 107) : undefined
  if (typeof rule !== 'object' || rule === null || !('preset' in rule)) return undefined
  return Object.keys(rule).length === 1 ? String(rule.preset).slice(0, 100) : ''
}
