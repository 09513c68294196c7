import { z } from 'zod'
import { requestLimits } from '../sessions/index.ts'

/** Fields that the requests of the API and of fronts have in common. */

export const execId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, 'must be 1 to 100 letters, digits, dots, dashes or underscores')
export const name = z
  .string()
  .min(1)
  .max(requestLimits.nameChars)
  .regex(/^\P{Cc}+$/u, 'must be printable')
export const labelKey = z.string().min(1).max(requestLimits.labelKeyChars)
export const labelValue = z.string().max(requestLimits.labelValueChars)
export const labels = z
  .record(labelKey, labelValue)
  .describe(`At most ${requestLimits.labels} labels, ${requestLimits.labelsBytes} bytes in all as JSON.`)
export const idempotencyKey = z.string().min(1).max(200)
export const env = z.record(
  z
    .string()
    .min(1)
    .regex(/^[^=\0]+$/, 'must be a name of a variable'),
  z.string().regex(/^[^\0]*$/),
)
export const filePath = z
  .string()
  .min(1)
  .max(4096)
  .regex(/^[^\0]+$/, 'must not hold NUL')
export const seconds = z.number().positive().max(31_536_000)
export const timeoutMs = z.int().positive().max(86_400_000)

/** In a query: `true`, `false`, `1`, `0`. */
export const flag = z.enum(['true', 'false', '1', '0']).transform((text) => text === 'true' || text === '1')
export const whole = z
  .string()
  .regex(/^\d{1,15}$/, 'must be a whole number')
  .transform(Number)
export const limit = z
  .string()
  .regex(/^[1-9]\d{0,3}$/, 'must be a number from 1 to 1000')
  .transform((text) => Math.min(Number(text), 1000))
