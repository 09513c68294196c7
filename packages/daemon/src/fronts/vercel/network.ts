import type { RequestTransform } from '@sandkasten/sdk'
import { z } from 'zod'
import type { Caller } from '../../keys/index.ts'
import type { GivenNetwork, Session, SessionNetwork } from '../../sessions/index.ts'
import { allowedBy, closedNetwork, deniedBy, isClosed, type NetworkPlace } from '../shared/network.ts'
import { notSupported } from '../shared/request.ts'
import type { Entry } from './entry.ts'

const matcher = z.object({
  path: z.object({ exact: z.string(), startsWith: z.string(), regex: z.string() }).partial().optional(),
  method: z.array(z.string()).optional(),
  queryString: z.array(z.unknown()).optional(),
  headers: z.array(z.unknown()).optional(),
})
const rule = z.object({
  match: matcher.optional(),
  transform: z.array(z.object({ headers: z.record(z.string(), z.string()).optional() })).optional(),
  forwardURL: z.string().optional(),
  response: z.unknown().optional(),
})

export const networkPolicy = z.looseObject({
  mode: z.string().optional(),
  allow: z.union([z.array(z.string()), z.record(z.string(), z.array(rule))]).optional(),
  subnets: z
    .object({ allow: z.array(z.string()).optional(), deny: z.array(z.string()).optional() })
    .optional(),
})
type NetworkPolicy = z.infer<typeof networkPolicy>

/** Maps Vercel's policy to a network. Undefined: the default. Throws for rules that cannot be enforced. */
export function networkFor(given: NetworkPolicy | undefined, place: NetworkPlace): GivenNetwork | undefined {
  if (given === undefined) return undefined
  if (given.mode === 'allow-all') return 'open'
  if (given.mode === 'deny-all') return closedNetwork(place)
  const { allow = [], subnets = {} } = given
  const domains = Array.isArray(allow) ? allow : Object.keys(allow)
  const transform = Array.isArray(allow)
    ? []
    : Object.entries(allow).flatMap(([host, rules]) => rules.map((one) => transformOf(host, one)))
  if (transform.some(({ match }) => match.host === '*'))
    throw notSupported('A rule with headers for all domains', 'Name the domains that get the headers.')
  return { allow: [...domains, ...(subnets.allow ?? [])], deny: subnets.deny ?? [], transform }
}

/** Changes the network of a sandbox. Headers are kept as secrets. */
export async function changeNetwork(
  { services: { sessions } }: Entry,
  caller: Caller,
  session: Session,
  given: NetworkPolicy,
): Promise<Session> {
  const rules = await sessions.rules(caller)
  const network = networkFor(given, { rules, provider: sessions.provider })
  if (network === undefined || network === session.network) return session
  const kept = await sessions.networks.withKeptHeaders(caller, network)
  return sessions.networks.set(caller, session.id, kept)
}

/** As Vercel shows it: names of headers, and no values. */
export function policyView(network: SessionNetwork): object {
  if (network === 'open') return { mode: 'allow-all' }
  if (typeof network === 'string' || isClosed(network)) return { mode: 'deny-all' }
  const { hosts, cidrs } = allowedBy(network)
  return {
    mode: 'custom',
    allowedDomains: hosts,
    allowedCIDRs: cidrs,
    deniedCIDRs: deniedBy(network).cidrs,
    injectionRules: network.transform.map(({ match: { host, path, methods }, headers }) => ({
      domain: host,
      headerNames: Object.keys(headers),
      ...(path === undefined && methods === undefined
        ? {}
        : {
            match: {
              ...(path === undefined ? {} : { path: { startsWith: path } }),
              ...(methods === undefined ? {} : { method: methods }),
            },
          }),
    })),
  }
}

function transformOf(host: string, { match = {}, transform, forwardURL, response }: z.infer<typeof rule>) {
  if (forwardURL !== undefined) throw notSupported('forwardURL in a rule of a network policy')
  if (response !== undefined) throw notSupported('response in a rule of a network policy')
  const { path = {}, method, queryString, headers: wantedHeaders } = match
  const prefix = path.startsWith ?? (path.regex === undefined ? undefined : prefixOf(path.regex))
  const isOther = path.exact !== undefined || (path.regex !== undefined && prefix === undefined)
  if (
    isOther ||
    (path.startsWith !== undefined && path.regex !== undefined) ||
    queryString?.length ||
    wantedHeaders?.length
  )
    throw notSupported('Such a match in a rule of a network policy', 'Match path.startsWith and method.')
  const headers = Object.assign({}, ...(transform ?? []).map((one) => one.headers ?? {})) as Record<
    string,
    string
  >
  const matched: RequestTransform['match'] = { host, path: prefix, methods: method }
  return {
    match: Object.fromEntries(Object.entries(matched).filter(([, value]) => value !== undefined)),
    headers,
  } as RequestTransform
}

/**
 * The beginning that a regular expression matches, if it is one of all paths with this beginning: `^/v1/.*`. For others a
 * beginning would be wider, and send the headers with more requests.
 */
function prefixOf(regex: string): string | undefined {
  const literal = /^\^((?:[A-Za-z0-9/_~%@:,;=&!-]|\\[./+-])+)\.\*\$?$/.exec(regex)?.[1]
  return literal?.replaceAll('\\', '')
}
