import { SandboxError } from '../../errors.ts'
import type { NormalTransform } from './normal.ts'

/** The values of secrets, for vendors that take them with the policy. */
export type SecretSource =
  | Readonly<Record<string, string>>
  | ((name: string) => string | undefined | Promise<string | undefined>)

/** The headers of a transform with the values of its secrets. Errors name secrets and never show a value. */
export async function headersOf(
  { headers }: NormalTransform,
  secrets: SecretSource | undefined,
  provider: string,
): Promise<Record<string, string>> {
  const values: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === 'string') {
      values[name] = value
      continue
    }
    const secret = await secretValue(value.secret, secrets, provider)
    const { prefix = '', suffix = '', basic } = value
    values[name] = basic === undefined ? `${prefix}${secret}${suffix}` : `Basic ${btoa(`${basic}:${secret}`)}`
  }
  return values
}

async function secretValue(
  name: string,
  secrets: SecretSource | undefined,
  provider: string,
): Promise<string> {
  const value =
    typeof secrets === 'function'
      ? await secrets(name)
      : secrets && Object.hasOwn(secrets, name)
        ? secrets[name]
        : undefined
  if (value === undefined)
    throw new SandboxError('invalid_argument', `The secret “${name}” has no value.`, {
      provider,
      details: { secret: name },
      hint: `The vendor adds the header, so it needs the value. Pass the provider’s option \`secrets\`: { '${name}': '…' }.`,
    })
  if (typeof value === 'string' && /^[\t\x20-\x7e]{1,8000}$/.test(value)) return value
  throw new SandboxError('invalid_argument', `The secret “${name}” cannot be sent in a header.`, {
    provider,
    details: { secret: name },
    hint: 'Use up to 8,000 printable ASCII characters without line breaks.',
  })
}
