import { secretLimits as valueLimits } from '@sandkasten/sdk/provider'
import { z } from 'zod'
import { endAction, policySchema, quotasSchema } from '../config/index.ts'
import { env, execId, filePath, idempotencyKey, labels, name, seconds, timeoutMs } from '../http/fields.ts'
import { scopes } from '../keys/index.ts'
import { secretLimits } from '../secrets/index.ts'
import { requestLimits, volumeName as volumeNamePattern } from '../sessions/index.ts'

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

/** The subject of a token. */
export const subject = z.string().min(1).max(200)

export const verdicts = ['allowed', 'denied', 'audit', 'error'] as const

const id = z.string().regex(/^[a-z2-7]{16}$/)
export const volumeName = z
  .string()
  .regex(
    volumeNamePattern,
    'must be 1 to 64 letters, digits, dots, dashes or underscores, and begin with a letter or digit',
  )
const volumePath = z
  .string()
  .max(4096)
  .regex(/^\/[^\0]*$/, 'must be an absolute path')
export const sessionParams = z.object({ id: z.string() })
export const execParams = z.object({ id: z.string(), exec_id: z.string() })
const ports = z.array(z.int()).max(1000)
const networkRule = z.union([
  z.string().max(500),
  z.looseObject({
    host: z.string().optional(),
    cidr: z.string().optional(),
    preset: z.string().optional(),
    ports: ports.optional(),
    protocol: z.string().optional(),
  }),
])
const headerValue = z.union([
  z.string(),
  z.looseObject({
    secret: z.string().describe('The name of a secret of the project.'),
    prefix: z.string().optional(),
    suffix: z.string().optional(),
    basic: z.string().optional().describe('Sends `Basic` with this user, and the secret as the password.'),
  }),
])
const networkLimits = z.strictObject({
  connections: z.int().positive().optional(),
  bytes: z.int().positive().optional(),
  bytes_per_second: z.int().positive().optional(),
})
/** The SDK checks the rules; its errors name the wrong one. */
export const networkBody = z
  .union([
    z.enum(['none', 'open']),
    z.strictObject({
      allow: z
        .array(networkRule)
        .max(1000)
        .describe('Such as `github.com`, `*.github.com:22` or `preset:github`.'),
      deny: z.array(networkRule).max(1000).optional().describe('Wins over `allow`.'),
      transform: z
        .array(
          z.strictObject({
            match: z.looseObject({
              host: z.string(),
              path: z.string().optional(),
              methods: z.array(z.string()).optional(),
            }),
            headers: z.record(z.string(), headerValue),
          }),
        )
        .max(100)
        .optional()
        .describe('Headers that are set outside of the sandbox.'),
      services: z
        .union([z.array(z.string()).max(50), z.record(z.string(), z.unknown())])
        .optional()
        .describe('Names of services in the daemon’s `egress.services`.'),
      audit: z.boolean().optional().describe('Allows and records what would be refused.'),
      limits: networkLimits.optional(),
    }),
  ])
  .meta({ id: 'Network' })

export const createBody = z.strictObject({
  image: z.string().min(1).max(500).optional(),
  runtime: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe(
      'Selects an allowed image by a program in it, such as `node24` or `python3.13`. Not together with `image` or `snapshot_id`.',
    ),
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
  network: networkBody.optional().describe('What the session reaches: `none`, `open` or a policy.'),
  network_mode: z.enum(['none', 'open']).optional().describe('The same as `network`, without policies.'),
  user: z
    .literal('root')
    .optional()
    .describe('Commands run as root of the sandbox, so that `apt-get install` works. Needs `allow_root`.'),
  tmp: z
    .enum(['disk', 'memory'])
    .optional()
    .describe('Where /tmp is: on the disk, or in memory and empty after each start.'),
  volumes: z
    .array(
      z.strictObject({
        name: volumeName,
        path: volumePath.describe('Where the session sees the volume.'),
        read_only: z
          .boolean()
          .optional()
          .describe('Default false. One running session may write to a volume; any number may read.'),
      }),
    )
    .max(requestLimits.volumes)
    .optional()
    .describe('Volumes of the project to mount.'),
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
    subject: z
      .string()
      .nullable()
      .describe('The subject of the token that created the session. Null when a key created it.'),
    status_at: time,
    image: z.string(),
    labels,
    env_names: z.array(z.string()),
    limits: z.object({ cpu: z.number(), memory_mb: z.int(), pids: z.int(), disk_mb: z.int().nullable() }),
    network_mode: z.string().describe('`none`, `open` or `policy`.'),
    network: z
      .union([z.enum(['none', 'open']), z.record(z.string(), z.unknown())])
      .describe('The policy in its normal form. Secrets are in it by name.'),
    workdir: z.string().nullable(),
    user: z.string().nullable().describe('`root`, or null for the sandbox’s ordinary user.'),
    writable_paths: z
      .array(z.string())
      .nullable()
      .describe('Folders that the user may write to. Null if they are not known.'),
    cwd: z.string().nullable().describe('The working directory of the main shell.'),
    incarnation: z
      .int()
      .describe(
        'Counts the starts of the sandbox. Send it as Sandkasten-Incarnation to make requests fail after a new start.',
      ),
    snapshot_id: z.string().nullable(),
    volumes: z.array(z.object({ name: z.string(), path: z.string(), read_only: z.boolean() })),
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
  output: z
    .enum(['separate', 'merged'])
    .optional()
    .describe('`merged`: one pipe for stdout and stderr. All output is stdout, in its true order.'),
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

export const volume = z
  .object({
    name: z.string(),
    status: z.enum(['ready', 'lost']).describe('`lost`: its content has disappeared from the machine.'),
    limit_mb: z.int().nullable().describe('The most that it can hold. Null: no limit.'),
    size_bytes: z
      .number()
      .nullable()
      .describe('The disk space that it uses. Null in lists, and while it is not known.'),
    writer_session_id: id.nullable().describe('The session that may write to it now.'),
    created_at: time,
  })
  .meta({ id: 'Volume' })

const secretHost = z
  .string()
  .max(253)
  .regex(/^(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*$/, 'must be a host in small letters, such as api.example.com')
export const secretBody = z.strictObject({
  value: z
    .string()
    .min(1)
    .describe(
      `${valueLimits.leastBytes} to ${valueLimits.mostBytes} printable ASCII characters. Never returned.`,
    ),
  hosts: z
    .array(secretHost)
    .min(1)
    .max(secretLimits.hosts)
    .optional()
    .describe(
      'The only hosts that the secret may be sent to. `*.example.com` stands for all hosts below it.',
    ),
})
export const secret = z
  .object({
    name: z.string(),
    version: z.int().describe('Counts the values that it had.'),
    hosts: z.array(z.string()).nullable().describe('Null: any host that the session’s policy allows.'),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'Secret' })

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

export const projectPolicy = z.object({
  policy: policySchema,
  effective: z
    .object({
      images: z.array(z.string()),
      default_image: z.string(),
      networks: z.array(z.string()),
      max: z.object({ cpu: z.number(), memory_mb: z.number(), pids: z.number(), disk_mb: z.number() }),
      max_ttl_seconds: z.number(),
      max_lifetime_seconds: z.number(),
    })
    .describe('What sessions of the project may use: the configuration, narrowed by the policy.'),
})

export const egressEvent = z
  .object({
    seq: z.int().describe('Counts up. A gap shows events that were dropped, or a new start of the gateway.'),
    session_id: id,
    at: time,
    kind: z.enum(['tcp', 'tls', 'http', 'dns', 'udp', 'icmp', 'other']),
    host: z.string().nullable(),
    address: z.string().nullable(),
    port: z.int().nullable(),
    verdict: z.enum(verdicts),
    rule: z.string().nullable().describe('The rule that decided.'),
    reason: z.string().nullable().describe('Why it was refused or failed, such as `no_rule`.'),
    bytes_in: z.number(),
    bytes_out: z.number(),
    duration_ms: z.number(),
    method: z.string().nullable(),
    path: z.string().nullable().describe('Without its query.'),
    status: z.int().nullable(),
  })
  .meta({ id: 'EgressEvent' })

export const event = z
  .object({
    id: z.int(),
    type: z.string(),
    session_id: z.string().nullable(),
    data: z.record(z.string(), z.unknown()),
    created_at: time,
  })
  .meta({ id: 'Event' })
