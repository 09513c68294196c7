import { z } from 'zod'

/** A pattern for images: `*` stands for any text, as in `python:*`. */
const pattern = z
  .string()
  .min(1)
  .max(500)
  .regex(/^[^\s\p{Cc}]+$/u, 'must be the name of an image, or a pattern such as python:*')
const seconds = z.number().positive().max(31_536_000)

/** What sessions of one project may use. It narrows the configuration and never widens it. */
export const policySchema = z
  .strictObject({
    images: z
      .array(pattern)
      .min(1)
      .max(100)
      .optional()
      .describe('Allowed images. `*` in a name stands for any text.'),
    networks: z
      .array(z.enum(['none', 'open', 'policy']))
      .min(1)
      .max(3)
      .optional()
      .describe('Allowed networks. `policy`: only with a network policy.'),
    hosts: z
      .array(z.string().min(1).max(300))
      .max(1000)
      .optional()
      .describe(
        'What network policies may name: `github.com`, `*.github.com`, `github.com:22`, `198.51.100.0/24`, `preset:github`.',
      ),
    services: z
      .array(z.string().min(1).max(63))
      .max(50)
      .optional()
      .describe('The services of the daemon that network policies may name.'),
    max: z
      .strictObject({
        cpu: z.number().positive().optional(),
        memory_mb: z.int().positive().optional(),
        pids: z.int().positive().optional(),
        disk_mb: z.int().positive().optional(),
      })
      .optional()
      .describe('The highest limits of one session.'),
    max_ttl_seconds: seconds.optional().describe('The longest idle time.'),
    max_lifetime_seconds: seconds
      .optional()
      .describe('The longest time since a start. It cannot be extended, and is the default.'),
    pool: z
      .array(pattern)
      .max(100)
      .optional()
      .describe('Images whose pooled sandboxes the project may take. An empty list: none.'),
  })
  .meta({ id: 'Policy' })
export type Policy = z.infer<typeof policySchema>

/** Whether the image fits one of the patterns. */
export function fits(patterns: readonly string[], image: string): boolean {
  return patterns.some((pattern) => matches(pattern.split('*'), image))
}

/** Compares the parts between the stars in order, without backtracking. */
function matches(parts: readonly string[], text: string): boolean {
  const [first, ...rest] = parts as [string, ...string[]]
  const last = rest.pop()
  if (last === undefined) return text === first
  if (!text.startsWith(first)) return false
  let at = first.length
  for (const part of rest) {
    const found = text.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return text.length - last.length >= at && text.endsWith(last)
}
