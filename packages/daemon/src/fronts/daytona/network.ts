import type { GivenNetwork, SessionNetwork } from '../../sessions/index.ts'
import { allowedBy, isClosed, type NetworkPlace, networkOf } from '../shared/network.ts'

export interface NetworkSettings {
  readonly networkBlockAll?: boolean
  readonly networkAllowList?: string
  readonly domainAllowList?: string
}

/**
 * Daytona's sandboxes have a network unless it is blocked, or a list names what they reach. Where the configuration
 * allows neither the network `none` nor policies, blocking leaves the configured default.
 */
export function networkFor(settings: NetworkSettings, place: NetworkPlace): GivenNetwork | undefined {
  const { networkBlockAll, networkAllowList, domainAllowList } = settings
  const allow = [...listed(networkAllowList), ...listed(domainAllowList)]
  const { allowed_networks: allowed } = place.rules
  if (networkBlockAll)
    return allowed.includes('none') || allowed.includes('policy') ? networkOf('deny-all', place) : undefined
  if (allow.length > 0) return { allow }
  return networkBlockAll === undefined ? undefined : 'open'
}

export function networkView(network: SessionNetwork): NetworkSettings {
  if (typeof network === 'string' || isClosed(network)) return { networkBlockAll: network !== 'open' }
  const { hosts, cidrs } = allowedBy(network)
  return {
    networkBlockAll: false,
    ...(cidrs.length > 0 ? { networkAllowList: cidrs.join(',') } : {}),
    ...(hosts.length > 0 ? { domainAllowList: hosts.join(',') } : {}),
  }
}

function listed(text = ''): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}
