import type { Network } from '@sandkasten/sdk'
import { type NetworkOptions, networkOf, sdkNetwork } from '../network-choice.ts'
import { print } from '../table.ts'
import { openHere } from './open.ts'

export interface SandboxNetworkOptions extends NetworkOptions {
  json?: boolean
}

/** Prints the network of a sandbox, after the change that the options ask for. */
export async function network(name: string, options: SandboxNetworkOptions): Promise<number> {
  await using opened = await openHere()
  const wanted = networkOf(options)
  const record =
    wanted === undefined
      ? await opened.sandboxes.get(name)
      : await opened.sandboxes.setNetwork(name, sdkNetwork(wanted) as Network)
  print(options.json, record.network ?? null, () => textOf(record.network))
  return 0
}

function textOf(network: Network | undefined): string {
  if (network === undefined) return 'the default of the provider'
  return typeof network === 'string' ? network : JSON.stringify(network, undefined, 2)
}
