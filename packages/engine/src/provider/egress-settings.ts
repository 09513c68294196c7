import path from 'node:path'
import { Egress, type EgressSandbox } from '../egress/egress.ts'
import { gatewayFolder, gatewayUser } from '../egress/gateway-user.ts'
import type { HostOverrides } from '../egress/host-facts.ts'
import type { SecretSource } from '../egress/secrets.ts'
import { privilegesOf } from '../isolators/oci/privileges/privileges.ts'
import { locateGateway } from './locate-runner.ts'

/** Settings of the gateway that serves sandboxes with a network policy. */
export interface EgressSettings {
  /** The gateway's binary. Default: found like the runner's. */
  readonly gateway?: string
  /** Certificate authorities (PEM) of servers that transforms connect to, besides those of this machine. */
  readonly upstreamCa?: readonly string[]
  /** Resolvers, own addresses and names instead of this machine's. */
  readonly host?: HostOverrides
}

export function egressOf(
  { egress = {}, secrets = {} }: { readonly egress?: EgressSettings; readonly secrets?: SecretSource },
  runFolder: string | undefined,
) {
  return (running: () => Promise<EgressSandbox[]>, root: () => string): Egress => {
    let folder: string | undefined
    return new Egress({
      folder: () => {
        folder ??= path.join(privilegesOf({ runFolder }).folders.run, gatewayFolder(root()))
        return folder
      },
      gateway: async () => egress.gateway ?? (await locateGateway()),
      user: process.getuid?.() === 0 ? userOf(root) : undefined,
      secrets,
      host: egress.host ?? {},
      upstreamCa: egress.upstreamCa ?? [],
      running,
    })
  }
}

function userOf(root: () => string): () => number {
  let user: number | undefined
  return () => {
    user ??= gatewayUser(root())
    return user
  }
}
