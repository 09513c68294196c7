import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'

/** Refuses unknown keys, and names the nearest known one. Runs before all other checks. */
export function unknownKeys(
  given: Readonly<Record<string, unknown>>,
  schema: z.ZodType,
  where: string,
): void {
  const shape = shapeOf(schema)
  if (!shape) return
  for (const [key, value] of Object.entries(given)) {
    const inner = shape[key]
    if (!inner) {
      const near = nearest(key, Object.keys(shape))
      throw new SandboxError('invalid_argument', `${where} has no key “${key}”.`, {
        hint: near ? `Did you mean ${near}?` : `There are: ${Object.keys(shape).join(', ')}.`,
      })
    }
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      unknownKeys(value as Record<string, unknown>, inner, `${where}: ${key}`)
  }
}

/** The keys of an object schema, also inside default and optional. Undefined for other schemas. */
export function shapeOf(schema: z.ZodType): Record<string, z.ZodType> | undefined {
  if (schema instanceof z.ZodObject) return schema.shape as Record<string, z.ZodType>
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional)
    return shapeOf(schema.unwrap() as z.ZodType)
  return undefined
}

export function problemOf(error: z.ZodError, file: string | undefined): SandboxError {
  const [issue] = error.issues
  const key = issue?.path.join('.') ?? ''
  return new SandboxError(
    'invalid_argument',
    `${file ? `${file}: ` : ''}${key}: ${issue?.message ?? 'is wrong'}`,
    {
      details: { key },
      hint: `Change ${key}.`,
    },
  )
}

export function nearest(name: string, known: readonly string[]): string | undefined {
  const scored = known.map((other) => ({ other, far: distance(other.toLowerCase(), name.toLowerCase()) }))
  const best = scored.sort((a, b) => a.far - b.far)[0]
  return best && best.far <= Math.max(2, Math.floor(name.length / 4)) ? best.other : undefined
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1)
      next[j] = Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
    row = next
  }
  return row[b.length]!
}
