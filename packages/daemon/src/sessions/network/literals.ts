import { checkSecretValue, secretLimits } from '@sandkasten/sdk/provider'

/** What a literal header of a front becomes: text that everybody may see, or a secret with the text around it. */
export type Literal = string | { readonly value: string; readonly prefix?: string; readonly basic?: string }

/**
 * Headers say nothing about which of them are credentials. So all are kept as secrets, except those that clients never
 * use for one, and values that are too short for a credential. The gateway masks secrets in the answers of servers: as a
 * secret, `content-type: application/json` would spoil them.
 */
export function literalOf(name: string, value: string): Literal {
  if (plain.has(name) || isVersion.test(name) || value.length < secretLimits.leastBytes) return value
  const what = `The value of the header ${JSON.stringify(name)} in the network policy`
  const pair = basicPair(value)
  if (pair) return { basic: pair.user, value: checkSecretValue(pair.password, what) }
  // A server may repeat the token without its scheme.
  const [, scheme, token = ''] = /^([A-Za-z][A-Za-z0-9-]{0,30} +)(\S+)$/.exec(value) ?? []
  if (scheme !== undefined && token.length >= secretLimits.leastBytes)
    return { prefix: scheme, value: checkSecretValue(token, what) }
  return { value: checkSecretValue(value, what) }
}

const plain = new Set([
  'accept',
  'accept-charset',
  'accept-language',
  'cache-control',
  'content-language',
  'content-type',
  'prefer',
  'user-agent',
])
/** `x-version`, `x-github-api-version`, `anthropic-version`. */
const isVersion = /(^|-)version$/

/** Undefined, if the header is not exactly what the gateway would send for this user and password. */
function basicPair(value: string): { user: string; password: string } | undefined {
  const encoded = /^Basic ([A-Za-z0-9+/]+={0,2})$/.exec(value)?.[1]
  if (encoded === undefined) return undefined
  const text = Buffer.from(encoded, 'base64').toString('latin1')
  const [, user, password = ''] = /^([\x20-\x39\x3b-\x7e]{1,1000}):([\x20-\x7e]+)$/.exec(text) ?? []
  const isSame = Buffer.from(text, 'latin1').toString('base64') === encoded
  if (user === undefined || !isSame || password.length < secretLimits.leastBytes) return undefined
  return { user, password }
}
