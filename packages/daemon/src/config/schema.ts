import { z } from 'zod'
import { jwtSchema } from './jwt.ts'

/**
 * The schema of `sandkasten.yaml`. Every key is also an environment variable: `SANDKASTEN_` and its path in capitals,
 * such as `SANDKASTEN_DEFAULTS_MEMORY_MB`.
 */

const seconds = z.int().positive().max(31_536_000)
const megabytes = z.int().positive().max(16_777_216)

/** The action at the end of a session's lease. */
export const endAction = z.enum(['stop', 'snapshot-and-stop', 'pause', 'destroy'])
export type EndAction = z.infer<typeof endAction>

const quotas = z.strictObject({
  sessions: z
    .int()
    .nonnegative()
    .optional()
    .describe('Live sessions of one project, including stopped ones.'),
  cpu: z.number().nonnegative().optional().describe('Total processors of its running sessions.'),
  mem_mb: z.int().nonnegative().optional().describe('Total memory of its running sessions.'),
  disk_mb: z.int().nonnegative().optional().describe('Total disk of its live sessions.'),
  snapshots: z.int().nonnegative().optional().describe('Snapshots of one project. Default: 100.'),
  snapshot_mb: z.int().nonnegative().optional().describe('Total size of its snapshots. Default: 102400.'),
  volumes: z.int().nonnegative().optional().describe('Volumes of one project. Default: 100.'),
  volume_mb: z
    .int()
    .nonnegative()
    .optional()
    .describe('Total size limit of its volumes; of a volume without a limit, its size. Default: 102400.'),
})
export type Quotas = z.infer<typeof quotas>
export { quotas as quotasSchema }

const defaults = z.strictObject({
  cpu_limit: z.number().positive().max(1024).default(1),
  memory_mb: megabytes.default(512),
  pids_limit: z.int().positive().max(1_000_000).default(256),
  tmp: z
    .enum(['disk', 'memory'])
    .default('disk')
    .describe('Where /tmp is: kept on the disk of the session, or in memory and empty after each start.'),
  tmp_limit_mb: megabytes.default(256).describe('The size of a /tmp in memory.'),
  disk_limit_mb: z
    .int()
    .nonnegative()
    .max(16_777_216)
    .optional()
    .describe('0: no limit. Default: 10240 where disks can be limited (oci as root), else none.'),
  volume_limit_mb: z
    .int()
    .nonnegative()
    .max(16_777_216)
    .optional()
    .describe('0: no limit. Default: 1024 where volumes can be limited (oci as root), else none.'),
  exec_timeout_ms: z
    .int()
    .positive()
    .max(86_400_000)
    .default(120_000)
    .describe('Default time limit of a command that is not detached; at most max_exec_timeout_ms.'),
  max_exec_timeout_ms: z
    .int()
    .positive()
    .max(86_400_000)
    .default(3_600_000)
    .describe('The longest time limit of a command that is not detached.'),
  network_mode: z.enum(['none', 'open']).default('none'),
  login_shell: z
    .boolean()
    .default(true)
    .describe('Shells read the profile of the sandbox’s user, as `bash -l` does.'),
  readonly_rootfs: z
    .literal(true, 'images are always read-only, and a sandbox writes to its own layer; leave this key out')
    .default(true),
})

const front = z.strictObject({
  listen: z.string().describe('The address and port of this front.'),
  url: z
    .string()
    .regex(
      /^https?:\/\/[a-z0-9.-]+(:\d{1,5})?$/,
      'must be a scheme and a host, such as https://e2b.example.com',
    )
    .optional()
    .describe('The URL that clients use for this address.'),
  user: z
    .literal('root')
    .optional()
    .describe(
      'Sandboxes of this front run as root, so that sudo and apt-get work (E2B, Daytona, Vercel). Needs allow_root.',
    ),
})

export type FrontName = 'e2b' | 'daytona' | 'vercel' | 'opensandbox'

export const fileSchema = z.strictObject({
  listen: z.string().default('127.0.0.1:8080').describe('Address and port.'),
  behind_tls: z
    .boolean()
    .default(false)
    .describe('A proxy in front provides TLS. Required for an address that other machines can reach.'),
  api_key: z
    .string()
    .min(8)
    .max(512)
    .optional()
    .describe('The first admin key. Default: created at the first start.'),
  jwt: jwtSchema.optional().describe('Tokens of another service, beside keys; see docs/keys.md.'),
  data_dir: z.string().min(1).optional().describe('Sandboxes, database and the identity of this daemon.'),
  engine_dir: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Sandboxes and images. Default: where `sandkasten run` and `sandkasten image` keep theirs, or below data_dir.',
    ),
  run_dir: z
    .string()
    .regex(/^\/.{0,60}$/, 'must be a short absolute path')
    .optional()
    .describe('Sockets of sandboxes. Default: /run/sandkasten, or the account’s own.'),
  db_path: z.string().min(1).optional().describe('SQLite. Default: sandkasten.db in data_dir.'),
  db_url: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must begin with postgres://')
    .optional()
    .describe('Postgres instead of SQLite.'),
  isolator: z.enum(['auto', 'oci', 'docker', 'process']).default('auto'),
  runtime: z
    .string()
    .min(1)
    .optional()
    .describe(
      'For `oci`: crun (the default), runc, runsc (gVisor), or the path of one. For `docker`: one that its daemon knows.',
    ),
  docker: z
    .strictObject({
      host: z
        .string()
        .regex(
          /^(unix|npipe|tcp|http|https|ssh):\/\//,
          'must be as DOCKER_HOST, such as unix:///run/podman/podman.sock',
        )
        .optional()
        .describe('Default: DOCKER_HOST, then the usual sockets of Docker and Podman.'),
      network: z.string().min(1).optional().describe('The Docker network for network_mode open.'),
      userns: z
        .string()
        .min(1)
        .optional()
        .describe('For Podman: `auto:size=65536` gives each sandbox its own range of ids.'),
    })
    .prefault({})
    .describe('For the isolator `docker`.'),
  accept_no_isolation: z.boolean().default(false).describe('Let `auto` fall back to `process`.'),
  default_image: z.string().min(1).default('host'),
  allowed_images: z.array(z.string().min(1)).min(1).optional().describe('Default: only default_image.'),
  images: z
    .record(z.string().min(1), z.string().min(1))
    .default({})
    .describe('Names for images, such as `sandbox-runtime:base: host`.'),
  pull_images: z
    .boolean()
    .default(false)
    .describe('Pull an allowed image from its registry when it is missing.'),
  session_ttl_seconds: seconds.default(1800).describe('Idle time after which on_idle happens.'),
  on_idle: endAction.default('destroy'),
  lifetime_seconds: seconds.optional().describe('Time since its last start after which on_lifetime happens.'),
  on_lifetime: endAction.default('destroy'),
  max_ttl_seconds: seconds.default(604_800).describe('The longest idle time and lifetime of a session.'),
  wake_on_use: z.boolean().default(false).describe('Start a stopped session when it is used.'),
  keep_ended_seconds: seconds.default(604_800).describe('How long ended sessions are kept.'),
  keep_ended_sessions: z
    .int()
    .positive()
    .max(10_000_000)
    .default(20_000)
    .describe('The number of ended sessions that are kept for one project.'),
  keep_project_results_mb: z
    .int()
    .min(32)
    .max(1_048_576)
    .default(128)
    .describe('Results of ended commands that are kept for one project. The oldest go first.'),
  keep_results_mb: z
    .int()
    .min(32)
    .max(1_048_576)
    .default(512)
    .describe(
      'The same for all projects together. The project with the most results loses its oldest first.',
    ),
  keep_events_mb: z.int().positive().max(65_536).default(32).describe('The approximate size of kept events.'),
  keep_audit_mb: z
    .int()
    .positive()
    .max(65_536)
    .default(128)
    .describe('The approximate size of the kept audit log.'),
  defaults: defaults.prefault({}),
  max: z
    .strictObject({
      cpu_limit: z.number().positive().default(16),
      memory_mb: megabytes.default(16_384),
      pids_limit: z.int().positive().default(16_384),
      disk_limit_mb: megabytes.default(1_048_576),
      volume_limit_mb: megabytes.default(102_400),
    })
    .prefault({})
    .describe('The highest limits of one session, and of one volume.'),
  allow_root: z
    .boolean()
    .default(false)
    .describe(
      'Sessions may ask for `user: root`: root of their own sandbox. Needs the isolator oci as root.',
    ),
  allowed_networks: z
    .array(z.enum(['none', 'open', 'policy']))
    .min(1)
    .default(['none'])
    .describe('`policy`: sessions may bring a network policy, which names what they reach.'),
  egress: z
    .strictObject({
      services: z
        .record(
          z.string().regex(/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be small letters, digits and dashes'),
          z.strictObject({ host: z.string().min(1).max(253), port: z.int().min(1).max(65_535) }),
        )
        .default({})
        .describe(
          'Services that policies may name, such as `model: { host: 127.0.0.1, port: 8899 }`: http://model.sandkasten.internal.',
        ),
      addresses: z
        .array(z.string().min(1).max(64))
        .max(256)
        .default([])
        .describe('Addresses and networks that policies may name although they are not public.'),
      max: z
        .strictObject({
          connections: z.int().positive().max(65_536).default(512),
          bytes: z.int().positive().optional(),
          bytes_per_second: z.int().positive().optional(),
        })
        .prefault({})
        .describe('The highest limits of one session with a policy, and its defaults.'),
    })
    .prefault({})
    .describe('For network policies.'),
  host_image: z
    .strictObject({
      hide: z.array(z.string().min(1).max(4096)).max(256).default([]),
      show: z.array(z.string().min(1).max(4096)).max(256).default([]),
    })
    .prefault({})
    .describe('For the image `host`: more paths below /usr to hide, and hidden ones to show.'),
  io_limit: z
    .strictObject({
      read_mb_s: z.int().positive().max(1_048_576).optional(),
      write_mb_s: z.int().positive().max(1_048_576).optional(),
    })
    .prefault({})
    .describe('For `oci`: megabytes a second that each sandbox may read from and write to the disk.'),
  open_network: z
    .strictObject({
      allow: z
        .array(z.string().min(1).max(64))
        .max(256)
        .default([])
        .describe(
          'Addresses and networks, such as 10.1.0.0/16, that the network `open` may reach although they are not public.',
        ),
    })
    .prefault({})
    .describe('Targets of the network `open` besides the public internet.'),
  pool: z
    .array(
      z.strictObject({
        size: z.int().positive().max(1000).describe('The number of pooled sandboxes.'),
        image: z.string().min(1).optional(),
        cpu_limit: z.number().positive().optional(),
        memory_mb: megabytes.optional(),
        pids_limit: z.int().positive().optional(),
        disk_limit_mb: megabytes.optional(),
        network_mode: z.enum(['none', 'open']).optional(),
        account: z.literal('user').optional().describe('For sandboxes of E2B’s front on the image `host`.'),
      }),
    )
    .default([])
    .describe('Sandboxes that are created in advance, for sessions with exactly these settings.'),
  pool_min_available_mb: z
    .int()
    .nonnegative()
    .default(512)
    .describe('The pool is emptied when less memory than this is available.'),
  quotas: quotas.prefault({}).describe('For every project without its own quotas.'),
  domain: z
    .string()
    .regex(
      /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/,
      'must be a host name in small letters',
    )
    .optional()
    .describe(
      'Previews are at http://<port>-<id>.<domain>. Default: localhost, if previews listen on a local address.',
    ),
  preview_listen: z
    .string()
    .optional()
    .describe(
      'The address of the preview listener, or `off`. Default: the address of listen, with its port + 1.',
    ),
  preview_url: z
    .string()
    .regex(
      /^https?:\/\/[a-z0-9.-]+(:\d{1,5})?$/,
      'must be a scheme and a host, such as https://previews.example.com',
    )
    .optional()
    .describe(
      'The URL that visitors use for this address. Its scheme and port also apply to names below domain.',
    ),
  fronts: z
    .strictObject({
      e2b: front.optional(),
      daytona: front.optional(),
      vercel: front.optional(),
      opensandbox: front.optional(),
    } satisfies Record<FrontName, unknown>)
    .prefault({})
    .describe('APIs of other vendors, each on its own listener; see docs/fronts.md.'),
  reaper_interval_seconds: z.number().positive().max(3600).default(5),
  log_level: z.enum(['silent', 'error', 'warn', 'info', 'debug']).default('info'),
  log_format: z
    .enum(['auto', 'text', 'json'])
    .default('auto')
    .describe('`text` is for people. `auto`: text on a terminal, else JSON lines.'),
  metrics: z.enum(['key', 'open']).default('key').describe('`open`: /metrics needs no key.'),
  max_body_mb: z
    .int()
    .positive()
    .max(1024)
    .default(8)
    .describe(
      'For JSON bodies with a program or content. Other JSON bodies are limited to 512 KiB; streams have no limit.',
    ),
  max_result_mb: z
    .int()
    .positive()
    .max(64)
    .default(4)
    .describe(
      'The largest result of a command, as JSON. A larger one loses its middle and says `truncated`.',
    ),
  result_memory_mb: z
    .int()
    .min(16)
    .max(65_536)
    .default(64)
    .describe('Memory of one project for collected output and unread responses.'),
})

export type FileConfig = z.infer<typeof fileSchema>
