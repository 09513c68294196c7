/**
 * The only error class of the SDK, and its code table.
 *
 * A command that exits with 3 is a result, not an error. An error means that the call could not be carried out; its
 * `hint` names the option, variable or command to change.
 * Providers classify errors by HTTP status or vendor code, never by message text, and keep the original as `cause`.
 */

interface ErrorRow {
  /** The status of the HTTP response. */
  readonly status: number
  /** Whether repeating the call is safe and may succeed. A specific error can override this. */
  readonly retryable: boolean
  /**
   * The default hint for SDK users; a specific error can override it. `hintsElsewhere` has the hints for HTTP and
   * CLI.
   */
  readonly hint: string
}

/** One hint for each surface: SDK, HTTP API and command line. Each names only calls of its own surface. */
export interface Hints {
  readonly sdk: string
  readonly http: string
  readonly cli: string
}

export const errorTable = {
  invalid_argument: { status: 400, retryable: false, hint: 'Change the option that the message names.' },
  path_outside: { status: 400, retryable: false, hint: 'Use a path below the sandbox’s working directory.' },
  unauthenticated: { status: 401, retryable: false, hint: 'Check the provider’s API key or token.' },
  forbidden: {
    status: 403,
    retryable: false,
    hint: 'Use credentials or an account with permission for this call.',
  },
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
  file_exists: {
    status: 409,
    retryable: false,
    hint: 'Remove the existing file first, or choose another path.',
  },
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
    hint: 'Use { recursive: true } to remove its content too.',
  },
  permission_denied: {
    status: 403,
    retryable: false,
    hint: 'Check the owner and mode with files.stat(); files.chmod() changes the mode of files that the sandbox’s user owns.',
  },
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
    hint: 'See the cause: the provider returned an unexpected response.',
  },
  connection_lost: {
    status: 502,
    retryable: true,
    hint: 'Repeat the call. A process that was started detached, or with an id, keeps running: find it with getProcess(id).',
  },
  unavailable: { status: 503, retryable: true, hint: 'The provider cannot be reached now; try again later.' },
  timeout: { status: 504, retryable: true, hint: 'Raise timeoutMs.' },
  disk_full: { status: 507, retryable: false, hint: 'Free space on the disk that the message names.' },
} as const satisfies Record<string, ErrorRow>

export type SandboxErrorCode = keyof typeof errorTable

const everywhere = (hint: string) => ({ http: hint, cli: hint })

/** The default hints for callers of the HTTP API and the command line. */
const hintsElsewhere: Readonly<Record<SandboxErrorCode, Omit<Hints, 'sdk'>>> = {
  invalid_argument: {
    http: 'Correct the field that the message names; GET /openapi.json describes each.',
    cli: 'Correct the value that the message names; --help describes each.',
  },
  path_outside: everywhere('Use a path below the sandbox’s working directory.'),
  unauthenticated: {
    http: 'Send the header “Authorization: Bearer <key>” with a valid key.',
    cli: 'Set SANDKASTEN_API_KEY to a valid key; sandkasten keys create makes one, on the daemon’s machine.',
  },
  forbidden: {
    http: 'Use a key with permission for this request.',
    cli: 'Set SANDKASTEN_API_KEY to a key with permission for this command.',
  },
  not_found: {
    http: 'GET /openapi.json lists the routes.',
    cli: 'List the sessions with sandkasten sessions list.',
  },
  file_not_found: { http: 'Check the path with GET /v1/sessions/{id}/files/list.', cli: 'Check the path.' },
  command_not_found: {
    http: 'Install the program in the sandbox, or correct `cmd`.',
    cli: 'Install the program in the sandbox, or correct the command.',
  },
  cwd_not_found: {
    http: 'Create the folder, or correct `cwd`.',
    cli: 'Create the folder, or correct --workdir.',
  },
  conflict: everywhere('Choose another name.'),
  file_exists: everywhere('Remove the existing file first, or choose another path.'),
  not_a_directory: everywhere('Part of the path is a file; choose another path.'),
  is_a_directory: {
    http: 'The path is a directory: name a file in it, or add recursive=true.',
    cli: 'The path is a directory: name a file in it, or add --recursive.',
  },
  directory_not_empty: {
    http: 'Add recursive=true to remove its content too.',
    cli: 'Add --recursive to remove its content too.',
  },
  permission_denied: {
    http: 'Check the owner and the mode of the path with GET /v1/sessions/{id}/files/stat.',
    cli: 'Check the owner and the mode of the path (ls -ld).',
  },
  not_running: {
    http: 'Start it with POST /v1/sessions/{id}/start.',
    cli: 'Start it with sandkasten sessions start.',
  },
  stdin_closed: {
    http: 'Start the command with stdin_open, and write before it ends.',
    cli: 'The command has ended, or takes no input.',
  },
  interrupted: everywhere('The sandbox was replaced or restarted; its earlier processes have ended.'),
  gone: {
    http: 'Read sooner, or raise output_buffer_bytes when the command is started.',
    cli: 'Read the output sooner; only the latest part is kept.',
  },
  too_large: {
    http: 'Use GET or PUT /v1/sessions/{id}/files, which stream, or raise the limit.',
    cli: 'Copy it with sandkasten cp, which takes any size.',
  },
  rate_limited: {
    http: 'Wait for the time in Retry-After, then try again.',
    cli: 'Wait a moment, then try again.',
  },
  quota_exceeded: {
    http: 'Destroy sessions that are not needed, or have the quota raised.',
    cli: 'Destroy sessions that you do not need (sandkasten sessions destroy), or have the quota raised.',
  },
  aborted: everywhere('The caller ended this request.'),
  internal: everywhere('This is a defect; please report it with the message.'),
  unsupported: everywhere('Leave the option out, or use another isolator.'),
  sdk_missing: everywhere('Install the package that the message names.'),
  provider_error: everywhere('The daemon’s log has the cause.'),
  connection_lost: {
    http: 'Find the command with GET /v1/sessions/{id}/execs, and read its output with `after`.',
    cli: 'See whether the command still runs: sandkasten commands list.',
  },
  unavailable: everywhere('Try again in a moment.'),
  timeout: { http: 'Raise timeout_ms.', cli: 'Raise --timeout.' },
  disk_full: everywhere('Free space on the disk that the message names.'),
}

export interface SandboxErrorOptions {
  /**
   * Replaces the table's hint. A plain string must fit every surface; a hint that names calls is given per surface.
   */
  hint?: string | Hints
  /** Replaces the table's value: false if a repeat could take effect twice. */
  retryable?: boolean
  /** The provider that failed (`local`, `vercel`, …). */
  provider?: string
  sandboxId?: string
  /** The vendor's request id, for their support. */
  requestId?: string
  /** Facts for programs: `{ port: 0 }`, `{ ability: 'fork' }`, `{ retryAfterMs: 2000 }`. Never a secret. */
  details?: Readonly<Record<string, unknown>>
  cause?: unknown
}

function hintsOf(code: SandboxErrorCode, given: string | Hints | undefined): Hints {
  if (typeof given === 'object') return given
  if (given !== undefined) return { sdk: given, http: given, cli: given }
  return { sdk: errorTable[code].hint, ...hintsElsewhere[code] }
}

/** Thrown for every failure of every provider. Compare `code`; show `message` and `hint`. */
export class SandboxError extends Error {
  override readonly name = 'SandboxError'
  readonly code: SandboxErrorCode
  /** The hint for users of the SDK. */
  readonly hint: string
  /** The hint for each surface. */
  readonly hints: Hints
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
    this.hints = hintsOf(code, options.hint)
    this.hint = this.hints.sdk
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

  /** The form that an API sends. Omits the cause, which may contain secrets. */
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
