import type { NormalNetwork } from '../../core/network/normal.ts'
import { vendorPolicy } from '../../core/network/vendor-policy.ts'
import type { DaytonaNetwork } from './sdk.ts'

const abilities = {
  provider: 'daytona',
  vendor: 'Daytona',
  everyName: false,
  addresses: 'ipv4',
  deny: false,
  transform: 'none',
} as const

/** The vendor's settings. Lists are separated by commas, and what they do not name is refused. */
export function networkSettingsOf(network: NormalNetwork): DaytonaNetwork {
  if (network === 'none') return { networkBlockAll: true }
  if (network === 'open') return { networkBlockAll: false }
  const { hosts, cidrs } = vendorPolicy(network, abilities)
  if (hosts.length === 0 && cidrs.length === 0) return { networkBlockAll: true }
  return {
    networkBlockAll: false,
    ...(cidrs.length === 0 ? {} : { networkAllowList: cidrs.join(',') }),
    ...(hosts.length === 0 ? {} : { domainAllowList: hosts.join(',') }),
  }
}

/** With the other list empty: the vendor does not document that an update replaces what it omits. */
export function replacing(settings: DaytonaNetwork): DaytonaNetwork {
  const lists = settings.networkAllowList !== undefined || settings.domainAllowList !== undefined
  return lists ? { networkAllowList: '', domainAllowList: '', ...settings } : settings
}

/** The list that an update was to clear, and did not. */
export function keptRules(wanted: DaytonaNetwork, found: DaytonaNetwork): string | undefined {
  if (wanted.networkBlockAll) return undefined
  return (['networkAllowList', 'domainAllowList'] as const).find(
    (list) => wanted[list] === undefined && found[list],
  )
}
