import type { NormalNetwork } from '../../core/network/normal.ts'
import { headersOf, type SecretSource } from '../../core/network/secret-values.ts'
import { transformsByHost, vendorPolicy } from '../../core/network/vendor-policy.ts'
import type { VendorNetwork } from './sdk.ts'

/** What the vendor allows takes precedence over what it denies, so `deny` cannot be translated. */
const abilities = {
  provider: 'e2b',
  vendor: 'E2B',
  everyName: false,
  addresses: 'ipv4',
  deny: false,
  transform: 'host',
} as const

const everything = ['0.0.0.0/0']

/** The vendor's egress configuration. Names are enforced for HTTP on port 80 and TLS on port 443. */
export async function networkOf(
  network: NormalNetwork,
  secrets: SecretSource | undefined,
): Promise<VendorNetwork> {
  if (network === 'open') return {}
  if (network === 'none') return { denyOut: everything }
  const { hosts, cidrs } = vendorPolicy(network, abilities)
  const rules: NonNullable<VendorNetwork['rules']> = {}
  const transformed = [...new Set(network.transform.map(({ match }) => match.host))]
  for (const [host, transforms] of transformsByHost(network.transform, transformed))
    rules[host] = await Promise.all(
      transforms.map(async (transform) => ({
        transform: { headers: await headersOf(transform, secrets, 'e2b') },
      })),
    )
  return {
    allowOut: [...hosts, ...cidrs],
    denyOut: everything,
    ...(transformed.length === 0 ? {} : { rules }),
  }
}
