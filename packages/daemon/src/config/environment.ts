import { SandboxError } from '@sandkasten/sdk'
import { parse } from 'yaml'
import type { z } from 'zod'
import { currentVariable } from './former-names.ts'
import { fileSchema } from './schema.ts'
import { nearest, shapeOf } from './unknown-keys.ts'

const prefix = 'SANDKASTEN_'
/** Other variables with our prefix that do not configure the daemon. */
const others = [
  'CONFIG',
  'HOME',
  'RUNNER',
  'URL',
  'SECRET_KEY',
  'SECRET_KEY_OLD',
  'EXEC_TIMEOUT',
  'SEED',
  'FUZZ_SEED',
  'FUZZ_ROUNDS',
  'KILLS',
  'AWAY_MS',
]

/** Reads settings from environment variables, in the shape of the file. */
export function readEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, unknown> {
  const leaves = leavesOf(fileSchema)
  const found: Record<string, unknown> = {}
  for (const [variable, value] of Object.entries(env)) {
    if (!variable.startsWith(prefix) || value === undefined) continue
    const name = currentVariable(variable.slice(prefix.length))
    const leaf = leaves.get(name)
    if (leaf) set(found, leaf.path, readValue(leaf.schema, value))
    else refuseMisspelt(variable, name, [...leaves.keys()])
  }
  return found
}

/** All settings by the name of their variable: `DEFAULTS_CPU_LIMIT` → defaults.cpu_limit. */
export function leavesOf(
  schema: z.ZodType,
  path: string[] = [],
): Map<string, { path: string[]; schema: z.ZodType }> {
  const shape = shapeOf(schema)
  if (!shape) return new Map([[path.join('_').toUpperCase(), { path, schema }]])
  return new Map(Object.entries(shape).flatMap(([key, inner]) => [...leavesOf(inner, [...path, key])]))
}

/** Keeps the text for text settings. Parses other values as YAML, for numbers, booleans and lists. */
function readValue(schema: z.ZodType, text: string): unknown {
  if (schema.safeParse(text).success) return text
  try {
    const value: unknown = parse(text)
    if (schema.safeParse(value).success) return value
    const list = text.split(',').map((part) => part.trim())
    return schema.safeParse(list).success ? list : value
  } catch {
    return text
  }
}

/** Refuses a name that is close to a setting, as a typo. Other programs may use our prefix too. */
function refuseMisspelt(variable: string, name: string, known: readonly string[]): void {
  if (others.includes(name)) return
  const near = nearest(name, known)
  if (near === undefined) return
  throw new SandboxError('invalid_argument', `The environment variable ${variable} is not a setting.`, {
    hint: `Did you mean ${prefix}${near}?`,
  })
}

function set(target: Record<string, unknown>, path: readonly string[], value: unknown): void {
  let at = target
  for (const key of path.slice(0, -1)) {
    at[key] ??= {}
    at = at[key] as Record<string, unknown>
  }
  at[path.at(-1)!] = value
}
