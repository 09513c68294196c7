import { SandboxError } from '@sandkasten/sdk'
import { checkSecretValue, secretLimits } from '@sandkasten/sdk/provider'

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

/** Checks the values of an object, so that a wrong one is found before a sandbox needs it. */
export function checkSource(source: SecretSource): void {
  if (typeof source === 'function') return
  for (const [name, value] of Object.entries(source))
    if (value !== undefined) checkSecretValue(value, titleOf(name))
}

/** The values of these secrets, in the limits of the gateway. Nothing is kept: who needs a value again asks again. */
export async function valuesOf(
  source: SecretSource,
  names: readonly string[],
  context: SecretContext,
): Promise<Record<string, string>> {
  const { values, problems } = await usableValues(source, names, context)
  if (problems.length > 0) throw problems[0]
  return values
}

/** Like `valuesOf`, without the values that cannot be used: a request that needs one of them is refused. */
export async function usableValues(
  source: SecretSource,
  names: readonly string[],
  context: SecretContext,
): Promise<{ values: Record<string, string>; problems: readonly SandboxError[] }> {
  const asked = await Promise.all(names.map((name) => valueIn(source, name, context)))
  const values: Record<string, string> = {}
  const problems: SandboxError[] = []
  for (const [at, name] of names.entries()) {
    const value = asked[at]
    if (value === undefined || value === null) continue
    try {
      values[name] = checkSecretValue(value, titleOf(name))
    } catch (error) {
      if (!SandboxError.is(error)) throw error
      problems.push(error)
    }
  }
  const size = Object.values(values).reduce((sum, value) => sum + value.length, 0)
  const { perPolicy, policyBytes } = secretLimits
  if (names.length <= perPolicy && size <= policyBytes) return { values, problems }
  const tooMany = new SandboxError(
    'too_large',
    `The network policy uses ${names.length} secrets with ${size} bytes together.`,
    { hint: `Use at most ${perPolicy} secrets with ${policyBytes} bytes together.` },
  )
  return { values: {}, problems: [...problems, tooMany] }
}

/** The value as the source gives it, unchecked. */
export async function valueIn(
  source: SecretSource,
  name: string,
  context: SecretContext,
): Promise<string | undefined> {
  if (typeof source === 'function') return source(name, context)
  return Object.hasOwn(source, name) ? source[name] : undefined
}

function titleOf(name: string): string {
  return `The value of the secret “${name}”`
}
