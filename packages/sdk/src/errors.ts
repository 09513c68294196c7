/**
 * The one error class and the one table behind it.
 *
 * A failed command is a result (`exitCode: 3`), never one of these. An error says that the thing asked for
 * could not be done at all, and its `hint` names the option, variable or command to change. Providers classify
 * by HTTP status or vendor code, never by message text, and keep the original error as `cause`.
 */

interface ErrorRow {
  /** What an HTTP API answers with. */
  readonly status: number
  /** Whether to make the same call again is harmless and may succeed. A place that throws may know better. */
  readonly retryable: boolean
  /** What to change, when the place that throws knows nothing better. */
  readonly hint: string
}

export const errorTable = {
  invalid_argument: { status: 400, retryable: false, hint: 'Change the option that the message names.' },
  path_outside: { status: 400, retryable: false, hint: 'Use a path below the sandbox’s working directory.' },
  unauthenticated: { status: 401, retryable: false, hint: 'Check the provider’s API key or token.' },
  forbidden: { status: 403, retryable: false, hint: 'Use credentials, or an account, that may do this.' },
  not_found: { status: 404, retryable: false, hint: 'List what exists with provider.list().' },
  file_not_found: {
    status: 404,
    retryable: false,
    hint: 'Check the path with files.exists() or files.list().',
  },
  command_not_found: {
    status: 404,
    retryable: false,
    hint: 'Install the program in the sandbox, or correct `cmd`.',
  },
  cwd_not_found: {
    status: 404,
    retryable: false,
    hint: 'Create the folder with files.mkdir(), or correct `cwd`.',
  },
  conflict: { status: 409, retryable: false, hint: 'Choose another name, or use getOrCreate().' },
  file_exists: { status: 409, retryable: false, hint: 'Remove what is there first, or choose another path.' },
  not_a_directory: {
    status: 409,
    retryable: false,
    hint: 'Part of the path is a file; choose another path.',
  },
  is_a_directory: {
    status: 409,
    retryable: false,
    hint: 'The path is a directory; name a file in it, or use { recursive: true }.',
  },
  directory_not_empty: {
    status: 409,
    retryable: false,
    hint: 'Use { recursive: true } to remove what is in it too.',
  },
  permission_denied: { status: 403, retryable: false, hint: 'Change the file’s mode with files.chmod().' },
  not_running: {
    status: 409,
    retryable: false,
    hint: 'Start the sandbox with start(), or get it again with provider.get(id).',
  },
  stdin_closed: {
    status: 409,
    retryable: false,
    hint: 'Start the process with { stdin: "pipe" } and write before it ends.',
  },
  interrupted: {
    status: 409,
    retryable: false,
    hint: 'The sandbox was replaced or restarted; get a new handle with provider.get(id).',
  },
  gone: {
    status: 410,
    retryable: false,
    hint: 'Read sooner, or raise outputBufferBytes when the process is started.',
  },
  too_large: {
    status: 413,
    retryable: false,
    hint: 'Use the streaming call (files.readStream), or raise the limit.',
  },
  rate_limited: { status: 429, retryable: true, hint: 'Wait for details.retryAfterMs, then try again.' },
  quota_exceeded: {
    status: 429,
    retryable: false,
    hint: 'Destroy sandboxes that are not needed, or raise the quota.',
  },
  aborted: { status: 499, retryable: false, hint: 'The caller’s AbortSignal ended this call.' },
  internal: {
    status: 500,
    retryable: false,
    hint: 'This is a defect; please report it with the message and the cause.',
  },
  unsupported: {
    status: 501,
    retryable: false,
    hint: 'Check supports(sandbox, ability) first, or choose another provider.',
  },
  sdk_missing: {
    status: 501,
    retryable: false,
    hint: 'Install the vendor’s SDK package that the message names.',
  },
  provider_error: {
    status: 502,
    retryable: false,
    hint: 'See the cause: the provider answered with something unexpected.',
  },
  connection_lost: {
    status: 502,
    retryable: true,
    hint: 'Make the call again. A process that was started detached, or with an id, goes on: find it with getProcess(id).',
  },
  unavailable: { status: 503, retryable: true, hint: 'The provider cannot be reached now; try again later.' },
  timeout: { status: 504, retryable: true, hint: 'Raise timeoutMs.' },
  disk_full: { status: 507, retryable: false, hint: 'Free space on the disk that the message names.' },
} as const satisfies Record<string, ErrorRow>

export type SandboxErrorCode = keyof typeof errorTable

export interface SandboxErrorOptions {
  /** Instead of the table's general hint. */
  hint?: string
  /** Instead of the table's: false where a repeat could do something twice. */
  retryable?: boolean
  /** Which provider it happened on (`local`, `vercel`, …). */
  provider?: string
  sandboxId?: string
  /** The vendor's request id, for their support. */
  requestId?: string
  /** Plain facts for programs: `{ port: 0 }`, `{ ability: 'fork' }`, `{ retryAfterMs: 2000 }`. Never a secret. */
  details?: Readonly<Record<string, unknown>>
  cause?: unknown
}

/** Every failure of every provider. Compare `code`; show `message` and `hint`. */
export class SandboxError extends Error {
  override readonly name = 'SandboxError'
  readonly code: SandboxErrorCode
  readonly hint: string
  readonly status: number
  readonly retryable: boolean
  readonly provider?: string
  readonly sandboxId?: string
  readonly requestId?: string
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: SandboxErrorCode, message: string, options: SandboxErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    const row: ErrorRow = errorTable[code]
    this.code = code
    this.hint = options.hint ?? row.hint
    this.status = row.status
    this.retryable = options.retryable ?? row.retryable
    this.details = options.details ?? {}
    if (options.provider !== undefined) this.provider = options.provider
    if (options.sandboxId !== undefined) this.sandboxId = options.sandboxId
    if (options.requestId !== undefined) this.requestId = options.requestId
  }

  /** Recognises a SandboxError even when two copies of this package are loaded. */
  static is(value: unknown, ...codes: SandboxErrorCode[]): value is SandboxError {
    if (!(value instanceof Error) || value.name !== 'SandboxError') return false
    const code = (value as { code?: unknown }).code
    if (typeof code !== 'string' || !(code in errorTable)) return false
    return codes.length === 0 || codes.includes(code as SandboxErrorCode)
  }

  /** What an API sends: never the cause, which may hold what a caller must not see. */
  toJSON(): {
    name: string
    code: SandboxErrorCode
    message: string
    hint: string
    status: number
    retryable: boolean
    provider?: string
    sandboxId?: string
    requestId?: string
    details: object
  } {
    const { name, code, message, hint, status, retryable, provider, sandboxId, requestId, details } = this
    return { name, code, message, hint, status, retryable, provider, sandboxId, requestId, details }
  }
}
