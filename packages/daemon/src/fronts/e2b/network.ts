import { type RequestTransform, SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import type { GivenNetwork, SessionNetwork } from '../../sessions/index.ts'
import {
  allBut,
  allowedBy,
  allowsAll,
  closedNetwork,
  deniedBy,
  isClosed,
  type NetworkPlace,
} from '../shared/network.ts'
import type { CreateBody } from './schemas.ts'

type Wanted = Pick<CreateBody, 'allow_internet_access'> & {
  network?: Partial<NonNullable<CreateBody['network']>>
}

const everything = new Set(['0.0.0.0/0', '::/0', '*'])

const rulesSchema = z.record(
  z.string(),
  z.array(
    z.object({ transform: z.object({ headers: z.record(z.string(), z.string()).optional() }).nullish() }),
  ),
)

/** Maps E2B's rules to a network. Undefined: the default. Throws for rules that cannot be enforced. */
export function networkFor(
  { allow_internet_access: internet, network = {} }: Wanted,
  place: NetworkPlace,
): GivenNetwork | undefined {
  const { allowOut = [], denyOut = [], rules, egressProxy, maskRequestHost, httpsPorts } = network
  for (const [name, value] of Object.entries({ egressProxy, maskRequestHost, httpsPorts }))
    if (value !== undefined && value !== null && Object.keys(value).length > 0)
      throw unsupported(`network.${name}`)
  const transform = transformsOf(rules)
  const closes = internet === false || denyOut.some((address) => everything.has(address))
  if (closes && (allowOut.length > 0 || transform.length > 0)) {
    if (allowOut.some((target) => everything.has(target)))
      throw unsupported('network.allowOut for all addresses together with network.denyOut')
    return { allow: allowOut, transform }
  }
  if (closes) return closedNetwork(place)
  if (transform.length > 0 || denyOut.length > 0) {
    // At E2B the allowed target wins, in our policies the denied one.
    if (denyOut.length > 0 && allowOut.some((target) => !everything.has(target)))
      throw unsupported('network.allowOut together with network.denyOut for some addresses')
    const network = allBut(denyOut, place)
    if (!network) throw unsupported('network.denyOut for some addresses, or network.rules without it,')
    if (!place.rules.allowed_networks.includes('open')) throw noInternet()
    return { ...network, transform }
  }
  if (internet === undefined && allowOut.length === 0) return undefined
  if (!place.rules.allowed_networks.includes('open')) throw noInternet()
  return 'open'
}

/**
 * The network of a new sandbox. E2B's Python SDK always sends `allow_internet_access: true`, the vendor's default.
 * Where `allowed_networks` has no `open`, the sandbox gets what is allowed, and `withheld` tells the caller so.
 */
export function networkOfCreate(
  wanted: Wanted,
  place: NetworkPlace,
): { network?: GivenNetwork; withheld: boolean } {
  const withheld = wanted.allow_internet_access === true && !place.rules.allowed_networks.includes('open')
  const network = networkFor(withheld ? { ...wanted, allow_internet_access: undefined } : wanted, place)
  return { network, withheld: withheld && typeof network !== 'object' }
}

/** As E2B shows it. Values of headers are never shown. */
export function networkView(network: SessionNetwork): object {
  if (typeof network === 'string' || isClosed(network))
    return network === 'open' ? {} : { denyOut: ['0.0.0.0/0'] }
  const { hosts, cidrs } = allowedBy(network)
  const rules: Record<string, object[]> = {}
  for (const { match, headers } of network.transform) {
    const redacted = Object.fromEntries(Object.keys(headers).map((name) => [name, '<redacted>']))
    rules[match.host] = [...(rules[match.host] ?? []), { transform: { headers: redacted } }]
  }
  const [denied, all] = [deniedBy(network), allowsAll(network)]
  return {
    ...(all ? {} : { allowOut: [...hosts, ...cidrs] }),
    denyOut: all ? [...denied.hosts, ...denied.cidrs] : ['0.0.0.0/0'],
    ...(network.transform.length > 0 ? { rules } : {}),
  }
}

function transformsOf(rules: unknown): RequestTransform[] {
  if (rules === undefined || rules === null) return []
  const known = rulesSchema.safeParse(rules)
  // The error of the schema is not shown: rules have credentials.
  if (!known.success) throw new SandboxError('invalid_argument', 'network.rules is malformed.')
  return Object.entries(known.data).flatMap(([host, all]) =>
    all.flatMap(({ transform }) => {
      const { headers = {} } = transform ?? {}
      return Object.keys(headers).length > 0 ? [{ match: { host }, headers }] : []
    }),
  )
}

function noInternet(): SandboxError {
  return new SandboxError('forbidden', 'This daemon does not allow internet access.', {
    hint: 'Leave allowInternetAccess out, or ask the operator to add open to allowed_networks.',
  })
}

function unsupported(what: string): SandboxError {
  return new SandboxError('invalid_argument', `${what} is not supported by this server.`, {
    hint: 'Deny everything with denyOut: ["0.0.0.0/0"], and name what is allowed in allowOut.',
  })
}
