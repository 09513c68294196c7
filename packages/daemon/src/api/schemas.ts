import { z } from 'zod'
import { endAction, quotasSchema } from '../config/index.ts'
import { env, execId, filePath, idempotencyKey, labels, name, seconds, timeoutMs } from '../http/fields.ts'
import { scopes } from '../keys/index.ts'
import { requestLimits } from '../sessions/index.ts'

/** The API's requests and responses. Names on the wire are in snake_case. */

export * from '../http/fields.ts'

export const statuses = [
  'creating',
  'running',
  'paused',
  'stopped',
  'expired',
  'crashed',
  'failed',
  'destroyed',
] as const

const id = z.string().regex(/^[a-z2-7]{16}$/)
export const sessionParams = z.object({ id: z.string() })
export const execParams = z.object({ id: z.string(), exec_id: z.string() })
export const createBody = z.strictObject({
  image: z.string().min(1).max(500).optional(),
  snapshot_id: z
    .string()
    .max(100)
    .optional()
    .describe(
      'Start from a saved disk. Limits and network come from the saved session unless you set them here.',
    ),
  ttl_seconds: seconds.optional().describe('How long the session may be idle.'),
  on_idle: endAction.optional(),
  lifetime_seconds: seconds.optional().describe('How long the session may run after each start.'),
  on_lifetime: endAction.optional(),
  wake_on_use: z.boolean().optional().describe('Start a stopped session when it is used.'),
  name: name.optional().describe('Unique among the project’s live sessions.'),
  labels: labels.optional(),
  env: env
    .optional()
    .describe(
      `Environment of every command. Never returned. At most ${requestLimits.envVars} variables, ${requestLimits.envBytes} bytes in all.`,
    ),
  limits: z
    .strictObject({
      cpu: z.number().positive().optional(),
      memory_mb: z.int().positive().optional(),
      pids: z.int().positive().optional(),
      disk_mb: z.int().positive().optional(),
    })
    .optional(),
  network_mode: z.enum(['none', 'open']).optional(),
  idempotency_key: idempotencyKey.optional().describe('Same as the header Idempotency-Key.'),
})

const time = z.iso.datetime()
export const session = z
  .object({
    id,
    name: name.nullable(),
    status: z.enum(statuses),
    status_reason: z.string(),
    status_by: z.string().describe('`key:<id>`, `reaper`, `reconciler` or `daemon`.'),
    status_at: time,
    image: z.string(),
    labels,
    env_names: z.array(z.string()),
    limits: z.object({ cpu: z.number(), memory_mb: z.int(), pids: z.int(), disk_mb: z.int().nullable() }),
    network_mode: z.string(),
    workdir: z.string().nullable(),
    cwd: z.string().nullable().describe('The working directory of the main shell.'),
    incarnation: z
      .int()
      .describe(
        'Counts the starts of the sandbox. Send it as Sandkasten-Incarnation to make requests fail after a new start.',
      ),
    snapshot_id: z.string().nullable(),
    wake_on_use: z.boolean(),
    ttl_seconds: z.number(),
    on_idle: endAction,
    lifetime_seconds: z.number().nullable(),
    on_lifetime: endAction,
    created_at: time,
    started_at: time,
    last_activity: time,
    expires_at: time.nullable().describe('When the session ends if it is not used before.'),
    lifetime_ends_at: time.nullable(),
    notes: z
      .array(z.string())
      .optional()
      .describe('After a create with snapshot_id: settings that were not inherited from the saved session.'),
  })
  .meta({ id: 'Session' })

export const sessionList = z.object({ sessions: z.array(session), next_cursor: z.string().optional() })

export const execBody = z.strictObject({
  cmd: z
    .string()
    .max(1_048_576)
    .regex(/^[^\0]*$/, 'must not hold NUL'),
  timeout_ms: timeoutMs.optional(),
  shell: name.optional().describe('Default `main`.'),
  exec_id: execId.optional().describe('Makes retries safe and lets the command outlive this request.'),
  stream: z.boolean().optional().describe('Respond with events (SSE), as with `Accept: text/event-stream`.'),
  max_output_bytes: z
    .int()
    .positive()
    .max(67_108_864)
    .optional()
    .describe('How much of each stream the result keeps, at most `max_result_mb`.'),
})

export const execResult = z
  .object({
    exec_id: z.string().optional(),
    exit_code: z.int(),
    cwd: z.string(),
    output: z.string(),
    truncated: z.boolean(),
    duration_ms: z.number(),
    timed_out: z.boolean(),
    shell_restarted: z.boolean(),
    warning: z
      .string()
      .optional()
      .describe('A warning about the shell, for example that its profile could not be read completely.'),
  })
  .meta({ id: 'ExecResult' })

/** Linux limits a single argument to 128 KiB. */
export const program = z
  .string()
  .min(1)
  .max(131_072)
  .regex(/^[^\0]+$/, 'must not hold NUL')
export const args = z
  .array(
    z
      .string()
      .max(1_048_576)
      .regex(/^[^\0]*$/, 'must not hold NUL'),
  )
  .max(10_000)

export const runBody = z.strictObject({
  cmd: program,
  args: args.optional(),
  env: env.optional(),
  cwd: filePath.optional(),
  timeout_ms: timeoutMs.optional(),
  stdin: z.string().optional().describe('Text, followed by end-of-file.'),
  stdin_base64: z.base64().optional(),
  stdin_open: z.boolean().optional().describe('Keep stdin open for POST …/execs/{exec_id}/stdin.'),
  exec_id: execId.optional(),
  detach: z
    .boolean()
    .optional()
    .describe('Respond as soon as the program runs. It does not extend the session’s lease.'),
  stream: z.boolean().optional(),
  hold: z
    .boolean()
    .optional()
    .describe('With `detach` and `stream`: the session counts as in use while the response is read.'),
  max_output_bytes: z
    .int()
    .positive()
    .max(67_108_864)
    .optional()
    .describe('How much of each stream the result keeps, at most `max_result_mb`.'),
  output_buffer_bytes: z.int().positive().max(16_777_216).optional(),
})

export const runResult = z
  .object({
    exec_id: z.string().optional(),
    exit_code: z.int(),
    stdout: z.string(),
    stderr: z.string(),
    signal: z.string().optional(),
    timed_out: z.boolean(),
    truncated: z.boolean(),
    oom: z.boolean().optional(),
    duration_ms: z.number(),
  })
  .meta({ id: 'RunResult' })

export const exec = z
  .object({
    exec_id: z.string(),
    kind: z.enum(['exec', 'run']),
    status: z.enum(['running', 'done', 'lost']),
    shell: z.string().nullable(),
    command: z.union([z.string(), z.array(z.string())]),
    detached: z.boolean(),
    incarnation: z.int(),
    created_at: time,
    ended_at: time.nullable(),
    result: z.union([runResult, execResult]).nullable(),
    result_omitted: z
      .boolean()
      .optional()
      .describe(
        'In lists: the result is omitted because the list would be too large. Get the command by its id.',
      ),
  })
  .meta({ id: 'Exec' })

export const snapshot = z
  .object({
    id,
    name: z.string().nullable(),
    session_id: id,
    image: z.string(),
    size_bytes: z.number().nullable(),
    created_at: time,
  })
  .meta({ id: 'Snapshot' })

export const fileStat = z.object({
  type: z.enum(['file', 'directory', 'symlink', 'other']),
  size: z.number(),
  mode: z.int().nullable(),
  mtime_ms: z.number().nullable(),
})
export const fileEntry = fileStat.extend({ name: z.string(), path: z.string() })

export const key = z
  .object({
    id: z.string(),
    name: z.string(),
    scopes: z.array(z.enum(scopes)),
    project_id: z.string(),
    created_at: time,
    expires_at: time.nullable(),
    revoked_at: time.nullable(),
  })
  .meta({ id: 'Key' })

export const project = z
  .object({ id: z.string(), name: z.string(), quotas: quotasSchema.nullable(), created_at: time })
  .meta({ id: 'Project' })

export const event = z
  .object({
    id: z.int(),
    type: z.string(),
    session_id: z.string().nullable(),
    data: z.record(z.string(), z.unknown()),
    created_at: time,
  })
  .meta({ id: 'Event' })
