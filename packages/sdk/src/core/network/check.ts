import type { Capabilities } from '../../spec/index.ts'
import { unsupported } from '../supports.ts'
import type { NormalNetwork } from './normal.ts'
import { normalizeNetwork } from './normalize.ts'

/** The normal form of a caller's network. A policy throws `unsupported` without the ability `egress`. */
export function checkNetwork(
  network: unknown,
  owner: { readonly provider: string; readonly capabilities: Capabilities },
): NormalNetwork {
  if (isPolicy(network) && !owner.capabilities.egress) throw unsupported(owner, 'egress')
  return normalizeNetwork(network)
}

function isPolicy(network: unknown): boolean {
  return typeof network === 'object' && network !== null && !Array.isArray(network)
}
