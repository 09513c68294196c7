import { SandboxError } from '@sandkasten/sdk'

/** The network of the options: `none`, `open`, or a policy as it is in the file. The engine and the daemon check it. */
export type NetworkChoice = 'none' | 'open' | Record<string, unknown>

export interface NetworkOptions {
  network?: NetworkChoice
  allow?: readonly string[]
  deny?: readonly string[]
  audit?: boolean
}

/** Undefined if no option chooses a network. */
export function networkOf({ network, allow, deny, audit }: NetworkOptions): NetworkChoice | undefined {
  if (allow === undefined && deny === undefined && !audit) return network
  if (typeof network === 'string')
    throw new SandboxError(
      'invalid_argument',
      `--network ${network} does not go with --allow, --deny and --audit.`,
      {
        hint: 'Leave --network out: what --allow does not name is refused, or recorded with --audit.',
      },
    )
  const base = network ?? {}
  const rules = (name: string, more: readonly string[] = []) => {
    const listed = base[name]
    return [...(Array.isArray(listed) ? (listed as unknown[]) : []), ...more]
  }
  return {
    ...base,
    allow: rules('allow', allow),
    ...(deny ? { deny: rules('deny', deny) } : {}),
    ...(audit ? { audit } : {}),
  }
}

/** As the HTTP API writes it. */
export function wireNetwork(network: NetworkChoice): unknown {
  if (typeof network === 'string') return network
  const { limits, transform, ...rest } = network
  return {
    ...rest,
    ...(Array.isArray(transform) ? { transform: transform.map(wireTransform) } : {}),
    ...(isObject(limits) ? { limits: renamed(limits, 'bytesPerSecond', 'bytes_per_second') } : {}),
  }
}

/** As the SDK writes it. */
export function sdkNetwork(network: NetworkChoice): NetworkChoice {
  if (typeof network === 'string') return network
  const { limits, ...rest } = network
  return isObject(limits)
    ? { ...rest, limits: renamed(limits, 'bytes_per_second', 'bytesPerSecond') }
    : network
}

function wireTransform(transform: unknown): unknown {
  if (!isObject(transform) || !isObject(transform.match)) return transform
  const { method, ...match } = transform.match
  if (method === undefined) return transform
  return { ...transform, match: { ...match, methods: Array.isArray(method) ? method : [method] } }
}

function renamed(value: Record<string, unknown>, from: string, to: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name === from ? to : name, inner]))
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
