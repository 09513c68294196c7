/** What a sandbox may reach: nothing, the public internet, or what a policy allows. */
export type Network = 'none' | 'open' | NetworkPolicy

/**
 * Everything that `allow` does not name is refused. Private, link-local and metadata addresses and those of the machine
 * itself are refused unless a rule names the address itself.
 */
export interface NetworkPolicy {
  readonly allow: readonly NetworkRule[]
  /** Wins over `allow`. */
  readonly deny?: readonly NetworkRule[]
  /** Headers that are set outside the sandbox, so that it never has the secrets in them. */
  readonly transform?: readonly RequestTransform[]
  /** Services of the machine: `{ model: { host: '127.0.0.1', port: 8899 } }` is `http://model.sandkasten.internal`. */
  readonly services?: Readonly<Record<string, NetworkService>>
  /** Allows and records what would be refused, to learn which policy suffices. */
  readonly audit?: boolean
  readonly limits?: NetworkLimits
}

/**
 * As text: `github.com`, `*.github.com`, `github.com:22`, `198.51.100.0/24`, `198.51.100.7:5432`, `[2001:db8::7]:443`,
 * or `preset:github`. A host without a port means 443 (TLS) and 80 (HTTP); an address without one means all TCP ports.
 * In `allow`, `*` means all names.
 */
export type NetworkRule = string | NetworkHostRule | NetworkAddressRule | NetworkPresetRule

export interface NetworkHostRule {
  readonly host: string
  readonly ports?: readonly number[]
  /** Default: `tls` for port 443, `http` for port 80, `tcp` for others. */
  readonly protocol?: 'tls' | 'http' | 'tcp'
}

export interface NetworkAddressRule {
  /** An address or a network: `198.51.100.0/24`. */
  readonly cidr: string
  readonly ports?: readonly number[]
}

/** A set of hosts that the provider knows. `packages` reads the registries from the machine's own configuration. */
export interface NetworkPresetRule {
  readonly preset: NetworkPreset
}

export type NetworkPreset = 'github' | 'anthropic' | 'openai' | 'packages'

/** Only for HTTPS. The sandbox trusts a certificate authority that is made for it alone. */
export interface RequestTransform {
  readonly match: RequestMatch
  readonly headers: Readonly<Record<string, string | SecretValue>>
}

export interface RequestMatch {
  readonly host: string
  /** The beginning of the path. */
  readonly path?: string
  /** Default: all methods. */
  readonly method?: string | readonly string[]
  /** The same as `method`, as the API writes it. */
  readonly methods?: readonly string[]
}

/** The value of a secret, by its name. See `secret()`. */
export interface SecretValue {
  readonly secret: string
  readonly prefix?: string
  readonly suffix?: string
  /** Sends `Basic` with this user and the secret as the password. */
  readonly basic?: string
}

export interface NetworkService {
  readonly host: string
  readonly port: number
}

export interface NetworkLimits {
  /** Open connections at a time. */
  readonly connections?: number
  /** In both directions, since the sandbox was started. */
  readonly bytes?: number
  readonly bytesPerSecond?: number
}
