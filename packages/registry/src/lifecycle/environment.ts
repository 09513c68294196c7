import type { Context, Place } from '../context.ts'
import type { SandboxRow } from '../store/index.ts'

type Variables = Readonly<Record<string, string>>

/** Encrypts the variables of a sandbox; null without any. */
export async function sealEnvironment(
  context: Context,
  rowId: string,
  envVars: Readonly<Record<string, string | undefined>> | undefined,
): Promise<string | null> {
  const given = Object.entries(envVars ?? {}).filter(([, value]) => value !== undefined)
  if (given.length === 0) return null
  return context.secrets.seal(JSON.stringify(Object.fromEntries(given)), placeOf('env', rowId))
}

export async function openEnvironment(context: Context, row: SandboxRow): Promise<Variables | undefined> {
  if (row.env === null) return undefined
  return JSON.parse(await context.secrets.open(row.env, placeOf('env', row.id))) as Variables
}

export function placeOf(column: 'env' | 'opencode_password', row: string): Place {
  return { table: 'sandboxes', column, row }
}
