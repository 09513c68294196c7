import type { ProcessHandle, SandboxFiles, SandboxHandle, SandboxProvider } from '../spec/index.ts'

/**
 * Which calls may be repeated, as data. A call whose response was lost may have been carried out, so only calls with
 * the same effect twice as once are repeated. The table covers every method: a new one does not compile until it is
 * classified.
 *
 *     always    the second call changes nothing
 *     never     it would run twice, or create two
 *     refused   only if the provider reported that it did nothing (`rate_limited`)
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
  // The name finds what an earlier attempt created; `withRetry` handles the caller's own functions.
  getOrCreate: 'always',
  list: 'always',
  listHandles: 'always',
  destroy: 'always',
  healthCheck: 'always',
  listSnapshots: 'always',
  deleteSnapshot: 'always',
}

export const sandboxCalls: Methods<SandboxHandle> = {
  status: 'always',
  info: 'always',
  // A refusal may come from reading the output of a program that already runs.
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
  setNetwork: 'always',
}

export const fileCalls: Methods<SandboxFiles> = {
  readFile: 'always',
  readFileOrNull: 'always',
  readLines: 'always',
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

export const processCalls: Methods<ProcessHandle> = {
  // These return streams, which break while they are read: resume with output({ after }).
  output: 'never',
  stdout: 'never',
  stderr: 'never',
  wait: 'always',
  // A program may count its signals, except this one.
  kill: (signal) => signal === 'SIGKILL',
  status: 'always',
  writeStdin: 'never',
  closeStdin: 'always',
}

/** A second start with the same id returns the first process. */
function namedStart(options: { execId?: string; stdin?: unknown } | undefined): boolean {
  return options?.execId !== undefined && (options.stdin === undefined || isAtHand(options.stdin))
}

/** A stream is consumed by the first attempt. */
function isAtHand(data: unknown): boolean {
  return typeof data === 'string' || data instanceof Uint8Array
}
