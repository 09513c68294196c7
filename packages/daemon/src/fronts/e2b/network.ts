import { SandboxError } from '@sandkasten/sdk'
import type { CreateBody } from './schemas.ts'

type Network = 'none' | 'open'
type Wanted = Pick<CreateBody, 'allow_internet_access'> & {
  network?: Partial<NonNullable<CreateBody['network']>>
}

const everything = new Set(['0.0.0.0/0', '::/0', '*'])

/**
 * A sandbox here has a network or none. What E2B's rules come to is one of the two, or refused: a rule that nothing would hold is never
 * taken silently. Undefined: nothing was said, and the configuration's default holds.
 */
export function networkOf(
  { allow_internet_access: internet, network = {} }: Wanted,
  allowed: readonly Network[],
): Network | undefined {
  const { allowOut = [], denyOut = [], rules, egressProxy, maskRequestHost, httpsPorts } = network
  for (const [name, value] of Object.entries({ rules, egressProxy, maskRequestHost, httpsPorts }))
    if (value !== undefined && value !== null && Object.keys(value).length > 0)
      throw unsupported(`network.${name}`)
  if (internet === false) {
    if (allowOut.length > 0) throw unsupported('network.allowOut with internet access off')
    return 'none'
  }
  if (denyOut.length === 0) {
    if (internet === undefined && allowOut.length === 0) return undefined
    return permitted('open', allowed)
  }
  if (allowOut.length === 0 && denyOut.some((address) => everything.has(address))) return 'none'
  throw unsupported('network.allowOut and network.denyOut for some addresses only')
}

/**
 * The same for a create. There `allow_internet_access: true` is the vendor's default, which E2B's Python SDK always
 * sends: where `allowed_networks` has no `open`, it means what is allowed here. `withheld`: the caller is told so.
 */
export function networkOfCreate(
  wanted: Wanted,
  allowed: readonly Network[],
): { network?: Network; withheld: boolean } {
  const withheld = wanted.allow_internet_access === true && !allowed.includes('open')
  const network = networkOf(withheld ? { ...wanted, allow_internet_access: undefined } : wanted, allowed)
  return { network, withheld }
}

function permitted(network: Network, allowed: readonly Network[]): Network {
  if (allowed.includes(network)) return network
  throw new SandboxError('forbidden', 'Sandboxes have no internet access here.', {
    hint: 'Leave allowInternetAccess out, or let the operator add open to allowed_networks.',
  })
}

function unsupported(what: string): SandboxError {
  return new SandboxError('invalid_argument', `${what} is not supported here.`, {
    hint: 'A sandbox has internet access (allowInternetAccess: true) or none (false).',
  })
}
