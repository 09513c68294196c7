import type { SecretValue } from '../../spec/index.ts'
import { checkKnown, invalid } from '../validate.ts'

export interface SecretOptions {
  /** Text before the value: `'Bearer '`. */
  readonly prefix?: string
  readonly suffix?: string
  /** Sends `Basic` with this user and the secret as the password. Without `prefix` and `suffix`. */
  readonly basic?: string
}

export const secretNames =
  'Use up to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit.'

export function isSecretName(name: unknown): name is string {
  return typeof name === 'string' && /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)
}

/**
 * The value of a secret as a header of a network policy. The value is added outside the sandbox, which never has it.
 *
 *     transform: [{ match: { host: 'api.github.com' }, headers: { authorization: secret('github', { prefix: 'Bearer ' }) } }]
 */
export function secret(name: string, options: SecretOptions = {}): SecretValue {
  checkKnown(options, ['prefix', 'suffix', 'basic'], 'secret()')
  return Object.freeze({ secret: checkedName(name), ...options })
}

/**
 * Text that stands for a secret inside the sandbox, for programs that refuse to start without a credential:
 * `envVars: { GITHUB_TOKEN: placeholder('github') }`. It has no value anywhere.
 */
export function placeholder(name: string): string {
  return `sandkasten-secret-${checkedName(name)}`
}

function checkedName(name: unknown): string {
  if (isSecretName(name)) return name
  throw invalid('The name of the secret is invalid.', secretNames)
}
