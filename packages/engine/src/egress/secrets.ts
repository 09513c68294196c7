import { SandboxError } from '@sandkasten/sdk'

/** The sandbox for which a secret is asked, so that a source can have different values for different owners. */
export interface SecretContext {
  readonly sandboxId: string
  readonly labels: Readonly<Record<string, string>>
}

/**
 * Where the values of secrets come from: an object, or a function that is asked when a sandbox needs a value. Without
 * a value, the gateway refuses the request.
 */
export type SecretSource =
  | Readonly<Record<string, string>>
  | ((name: string, context: SecretContext) => string | undefined | Promise<string | undefined>)

const MAX_SECRET = 16 * 1024

/** The values of these secrets. Nothing is kept: who needs a value again asks again. */
export async function valuesOf(
  source: SecretSource,
  names: readonly string[],
  context: SecretContext,
): Promise<Record<string, string>> {
  const values = await Promise.all(names.map((name) => secretValue(source, name, context)))
  const found = names.map((name, index) => [name, values[index]] as const)
  return Object.fromEntries(found.filter(([, value]) => value !== undefined)) as Record<string, string>
}

async function secretValue(
  source: SecretSource,
  name: string,
  context: SecretContext,
): Promise<string | undefined> {
  const value =
    typeof source === 'function'
      ? await source(name, context)
      : Object.hasOwn(source, name)
        ? source[name]
        : undefined
  if (value === undefined || value === null) return undefined
  // The value itself never appears in an error.
  if (typeof value !== 'string' || value === '' || value.length > MAX_SECRET || /[^\t\x20-\x7e]/.test(value))
    throw new SandboxError('invalid_argument', `The value of the secret “${name}” cannot be a header.`, {
      hint: `Use up to ${MAX_SECRET / 1024} KiB of printable ASCII without line breaks.`,
    })
  return value
}
