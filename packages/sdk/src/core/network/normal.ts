import type {
  NetworkAddressRule,
  NetworkHostRule,
  NetworkLimits,
  NetworkPolicy,
  NetworkPresetRule,
  NetworkService,
  RequestTransform,
  SecretValue,
} from '../../spec/index.ts'

/** A checked network. It is a `Network`, too: normalizing it again changes nothing. */
export type NormalNetwork = 'none' | 'open' | NormalPolicy

/** A policy with rules as objects, names in lower-case ASCII, sorted ports and all defaults. Frozen. */
export interface NormalPolicy extends NetworkPolicy {
  readonly allow: readonly NormalRule[]
  readonly deny: ReadonlyArray<NetworkHostRule | NetworkAddressRule>
  readonly transform: readonly NormalTransform[]
  readonly services: Readonly<Record<string, NetworkService>>
  readonly audit: boolean
  readonly limits: NetworkLimits
}

/** An address always has its prefix: `198.51.100.7` is `198.51.100.7/32`. */
export type NormalRule = NetworkHostRule | NetworkAddressRule | NetworkPresetRule

export interface NormalTransform extends RequestTransform {
  readonly match: { readonly host: string; readonly path?: string; readonly methods?: readonly string[] }
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | SecretValue>>
}
