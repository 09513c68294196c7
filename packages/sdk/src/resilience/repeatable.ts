import type {
  AllCapabilities,
  ProcessHandle,
  SandboxFiles,
  SandboxHandle,
  SandboxProvider,
} from '../spec/index.ts'

/**
 * Which calls may be made twice, as data. A call whose answer was lost may have been carried out, so only what has the same
 * effect twice as once is repeated. Every method is in here: a new one does not compile until it is classified.
 *
 *     always    the second time changes nothing
 *     never     it would run twice, or make two
 *     refused   only where the provider said that it did nothing (`rate_limited`)
 *     function  depends on the arguments
 */
// biome-ignore lint/suspicious/noExplicitAny: each function is called with the arguments of its own method.
export type Rule = 'always' | 'never' | 'refused' | ((...args: any[]) => boolean)

type Methods<T> = {
  // biome-ignore lint/suspicious/noExplicitAny: any function.
  [K in keyof T as T[K] extends (...args: any[]) => unknown ? (K extends string ? K : never) : never]-?: Rule
}

export const providerCalls: Methods<SandboxProvider> = {
  create: 'refused',
  get: 'always',
  // By its name it finds what an earlier attempt made; the caller's own functions are looked after in `withRetry`.
  getOrCreate: 'always',
  list: 'always',
  destroy: 'always',
  healthCheck: 'always',
  listSnapshots: 'always',
  deleteSnapshot: 'always',
}

export const sandboxCalls: Methods<SandboxHandle<AllCapabilities>> = {
  status: 'always',
  info: 'always',
  // A refusal may come from the reading of its output, when it runs already.
  runCommand: (options) => options?.detached === true && namedStart(options),
  spawn: (options) => namedStart(options),
  readFile: 'always',
  writeFile: (_path, data) => isAtHand(data),
  uploadFile: 'always',
  downloadFile: 'always',
  restricted: 'never',
  destroy: 'always',
  getProcess: 'always',
  listProcesses: 'always',
  openShell: (options) => options?.name !== undefined,
  openTerminal: (options) => options?.terminalId !== undefined,
  getEndpoint: 'always',
  getUrl: 'always',
  stop: 'always',
  start: 'always',
  pause: 'always',
  resume: 'always',
  snapshot: 'never',
  fork: 'never',
  extendTimeout: 'always',
  refreshActivity: 'always',
}

export const fileCalls: Methods<SandboxFiles<AllCapabilities>> = {
  readFile: 'always',
  readStream: 'always',
  writeFile: (_path, data) => isAtHand(data),
  appendFile: 'never',
  readdir: 'always',
  list: 'always',
  stat: 'always',
  lstat: 'always',
  exists: 'always',
  mkdir: (_path, options) => options?.recursive === true,
  rename: 'never',
  rm: (_path, options) => options?.force === true,
  chmod: 'always',
  symlink: 'never',
  readlink: 'always',
  watch: 'always',
}

export const processCalls: Methods<ProcessHandle<AllCapabilities>> = {
  // These two give streams, which break while they are read: go on with output({ after }).
  output: 'never',
  stdout: 'never',
  stderr: 'never',
  wait: 'always',
  // A program may count its signals; this one it does not live to count.
  kill: (signal) => signal === 'SIGKILL',
  status: 'always',
  writeStdin: 'never',
  closeStdin: 'always',
}

/** A second start with the same id returns the process of the first. */
function namedStart(options: { execId?: string; stdin?: unknown } | undefined): boolean {
  return options?.execId !== undefined && (options.stdin === undefined || isAtHand(options.stdin))
}

/** A stream is read by the first attempt. */
function isAtHand(data: unknown): boolean {
  return typeof data === 'string' || data instanceof Uint8Array
}
