import { SandboxError } from '@sandkasten/sdk'
import { type NetworkPolicy, networkOf } from '../shared/network.ts'
import type { CreateBody } from './schemas.ts'

type Network = 'none' | 'open'
type Wanted = Pick<CreateBody, 'allow_internet_access'> & {
  network?: Partial<NonNullable<CreateBody['network']>>
}

const everything = new Set(['0.0.0.0/0', '::/0', '*'])

/** Maps E2B's rules to a policy for all traffic. Throws for rules that cannot be enforced. */
export function policyOf(
  { allow_internet_access: internet, network = {} }: Wanted,
  allowed: readonly Network[],
): NetworkPolicy | undefined {
  const { allowOut = [], denyOut = [], rules, egressProxy, maskRequestHost, httpsPorts } = network
  for (const [name, value] of Object.entries({ rules, egressProxy, maskRequestHost, httpsPorts }))
    if (value !== undefined && value !== null && Object.keys(value).length > 0)
      throw unsupported(`network.${name}`)
  if (internet === false) {
    if (allowOut.length > 0) throw unsupported('network.allowOut with internet access off')
    return 'deny-all'
  }
  if (denyOut.length === 0) {
    if (internet === undefined && allowOut.length === 0) return undefined
    if (!allowed.includes('open')) throw noInternet()
    return 'allow-all'
  }
  if (allowOut.length === 0 && denyOut.some((address) => everything.has(address))) return 'deny-all'
  throw unsupported('network.allowOut and network.denyOut for some addresses only')
}

/**
 * The network of a new sandbox. E2B's Python SDK always sends `allow_internet_access: true`, the vendor's default.
 * Where `allowed_networks` has no `open`, the sandbox gets what is allowed, and `withheld` tells the caller so.
 */
export function networkOfCreate(
  wanted: Wanted,
  allowed: readonly Network[],
): { network?: Network; withheld: boolean } {
  const withheld = wanted.allow_internet_access === true && !allowed.includes('open')
  const policy = policyOf(withheld ? { ...wanted, allow_internet_access: undefined } : wanted, allowed)
  return { network: networkOf(policy), withheld }
}

function noInternet(): SandboxError {
  return new SandboxError('forbidden', 'This daemon does not allow internet access.', {
    hint: 'Leave allowInternetAccess out, or ask the operator to add open to allowed_networks.',
  })
}

function unsupported(what: string): SandboxError {
  return new SandboxError('invalid_argument', `${what} is not supported by this server.`, {
    hint: 'Set allowInternetAccess to true or false.',
  })
}
