import { z } from 'zod'

/** Bodies and queries of E2B's control plane. Unknown fields are ignored, as E2B does. */

const seconds = z.int().min(1).max(31_536_000)
const variables = z.record(z.string().min(1).max(1000), z.string().max(1_048_576))
const anything = z.unknown().optional()
/** Some SDKs send null for an absent field. */
const optional = <T extends z.ZodType>(schema: T) => schema.nullish().transform((value) => value ?? undefined)

export const networkBody = z.object({
  allowOut: optional(z.array(z.string())),
  denyOut: optional(z.array(z.string())),
  rules: anything,
  egressProxy: anything,
  allow_internet_access: optional(z.boolean()),
})

export const createBody = z.object({
  templateID: z.string().min(1).max(500).default('base'),
  timeout: optional(seconds),
  metadata: optional(z.record(z.string().min(1).max(200), z.string().max(4096))),
  envVars: optional(variables),
  autoPause: optional(z.boolean()),
  autoPauseMemory: optional(z.boolean()),
  autoResume: optional(z.object({ enabled: z.boolean().optional() })),
  allow_internet_access: optional(z.boolean()),
  network: optional(
    z.object({
      allowOut: optional(z.array(z.string())),
      denyOut: optional(z.array(z.string())),
      rules: anything,
      egressProxy: anything,
      maskRequestHost: anything,
      httpsPorts: anything,
      allowPublicTraffic: optional(z.boolean()),
    }),
  ),
  volumeMounts: anything,
  mcp: anything,
  iam: anything,
})
export type CreateBody = z.infer<typeof createBody>

export const connectBody = z.object({ timeout: optional(seconds), memory: optional(z.boolean()) })
export const timeoutBody = z.object({ timeout: seconds })
export const refreshBody = z.object({ duration: optional(z.int().min(0).max(31_536_000)) })
export const resumeBody = z.object({ timeout: optional(seconds) })
export const pauseBody = z.object({ memory: optional(z.boolean()) })
export const snapshotBody = z.object({ name: optional(z.string().min(1).max(200)) })
export const forkBody = z.object({ timeout: optional(seconds), count: optional(z.int().min(1).max(100)) })

const limit = z.coerce.number().int().min(1).max(1000)
export const listQuery = z.object({
  metadata: z.string().optional(),
  state: z.union([z.string(), z.array(z.string())]).optional(),
  limit: limit.optional(),
  nextToken: z.string().max(200).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  template: z.string().optional(),
  startedAfter: z.string().optional(),
})
export const snapshotQuery = z.object({
  sandboxID: z.string().optional(),
  name: z.string().optional(),
  limit: limit.optional(),
  nextToken: z.string().max(200).optional(),
})

/** Seconds since 1970. */
const second = z.coerce.number().int().min(0)
export const metricsQuery = z.object({ start: second.optional(), end: second.optional() })
export const metricsOfQuery = z.object({
  sandbox_ids: z
    .union([z.string(), z.array(z.string())])
    .optional()
    .transform((given) => [given ?? []].flat().flatMap((text) => text.split(',').filter((id) => id !== '')))
    .refine((ids) => ids.length <= 100, 'are more than 100'),
})
/** Milliseconds since 1970. */
const moment = z.coerce.number().int().min(0)
export const logsQuery = z.object({
  start: moment.optional(),
  cursor: moment.optional(),
  limit: limit.default(1000),
  direction: z.enum(['forward', 'backward']).optional(),
  level: z.enum(['debug', 'info', 'warn', 'error']).optional(),
  search: z.string().optional(),
})
