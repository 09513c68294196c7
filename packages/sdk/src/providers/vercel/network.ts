import type { NormalNetwork } from '../../core/network/normal.ts'
import { headersOf, type SecretSource } from '../../core/network/secret-values.ts'
import { covers, transformsByHost, vendorPolicy } from '../../core/network/vendor-policy.ts'
import type { VendorNetworkPolicy, VendorNetworkRule } from './sdk.ts'

const abilities = {
  provider: 'vercel',
  vendor: 'Vercel',
  everyName: true,
  addresses: 'all',
  deny: true,
  transform: 'request',
} as const

/** The vendor's policy. Its rules belong to allowed domains, and a rule would allow its domain. */
export async function networkPolicyOf(
  network: NormalNetwork,
  secrets: SecretSource | undefined,
): Promise<VendorNetworkPolicy> {
  if (network === 'none') return 'deny-all'
  if (network === 'open') return 'allow-all'
  const { hosts, cidrs, deniedCidrs } = vendorPolicy(network, abilities)
  const transformed = network.transform
    .map(({ match }) => match.host)
    .filter((host) => hosts.some((allowed) => covers(allowed, host)))
  const rules: Record<string, VendorNetworkRule[]> = {}
  for (const [host, transforms] of transformsByHost(network.transform, [...hosts, ...transformed]))
    rules[host] = await Promise.all(
      transforms.map(async (transform): Promise<VendorNetworkRule> => {
        const { path, methods } = transform.match
        const match = {
          ...(path === undefined ? {} : { path: { startsWith: path } }),
          ...(methods === undefined ? {} : { method: [...methods] }),
        }
        return {
          ...(Object.keys(match).length === 0 ? {} : { match }),
          transform: [{ headers: await headersOf(transform, secrets, 'vercel') }],
        }
      }),
    )
  return { allow: rules, subnets: { allow: [...cidrs], deny: [...deniedCidrs] } }
}
