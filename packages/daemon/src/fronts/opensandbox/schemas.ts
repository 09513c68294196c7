import { z } from 'zod'

/** Bodies of OpenSandbox's requests. Unknown fields are ignored, as OpenSandbox does. */

/** SDKs send null for an absent field. */
const optional = <T extends z.ZodType>(schema: T) => schema.nullish().transform((value) => value ?? undefined)
const variables = z.record(z.string().min(1).max(1000), z.string().max(1_048_576))
const anything = z.unknown().optional()

export const metadata = z.record(z.string().min(1).max(200), z.string().max(4096))

export const networkRule = z.object({ action: z.enum(['allow', 'deny']), target: z.string().min(1).max(500) })
export type NetworkRule = z.infer<typeof networkRule>
export const networkPolicy = z.object({
  defaultAction: optional(z.enum(['allow', 'deny'])),
  egress: optional(z.array(networkRule).max(1000)),
})
export type NetworkPolicy = z.infer<typeof networkPolicy>

export const createBody = z.object({
  image: optional(z.object({ uri: z.string().min(1).max(500), auth: anything })),
  snapshotId: optional(z.string().min(1).max(200)),
  platform: optional(z.object({ os: z.string(), arch: z.string() })),
  timeout: optional(z.int().min(1).max(31_536_000)),
  resourceLimits: optional(z.record(z.string(), z.string())),
  env: optional(variables),
  metadata: optional(metadata),
  entrypoint: optional(z.array(z.string()).max(1000)),
  networkPolicy: optional(networkPolicy),
  credentialProxy: optional(z.object({ enabled: optional(z.boolean()) })),
  secureAccess: optional(z.boolean()),
  volumes: optional(z.array(z.unknown())),
  extensions: optional(z.record(z.string(), z.string())),
})
export type CreateBody = z.infer<typeof createBody>

export const metadataPatch = z.record(z.string().min(1).max(200), z.string().max(4096).nullable())
export const renewBody = z.object({ expiresAt: z.string() })
export const snapshotBody = z.object({ name: optional(z.string().min(1).max(200)) })

const milliseconds = z.int().min(1).max(2_147_483_647)
const command = z.string().max(1_048_576).regex(/\S/, 'must not be empty')
const folder = optional(z.string().max(4096))

export const commandBody = z.object({
  command,
  cwd: folder,
  background: optional(z.boolean()),
  timeout: optional(milliseconds),
  uid: optional(z.int()),
  gid: optional(z.int()),
  envs: optional(variables),
})
export const sessionBody = z.object({ cwd: folder })
export const sessionRunBody = z.object({ command, cwd: folder, timeout: optional(milliseconds) })

export const contextBody = z.object({ language: optional(z.string().max(50)) })
export const codeBody = z.object({
  code: z.string().max(8_388_608),
  context: optional(z.object({ id: optional(z.string().max(200)), language: optional(z.string().max(50)) })),
})

const path = z.string().min(1).max(4096)
/** Octal digits as a decimal number: 644 means 0o644. */
const mode = z
  .int()
  .refine((value) => /^[0-7]{1,4}$/.test(String(value)), 'must be octal, such as 644')
  .transform((value) => Number.parseInt(String(value), 8))
const account = optional(z.string().max(200))
export const permission = z.object({ owner: account, group: account, mode: optional(mode) })
export const permissions = z.record(path, permission)
export const fileMetadata = permission.extend({ path })
export const moves = z.array(z.object({ src: path, dest: path }))
export const replacements = z.record(path, z.object({ old: z.string().min(1), new: z.string() }))
