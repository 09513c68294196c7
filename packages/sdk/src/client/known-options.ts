import type { ExecOptions, ListSessionsOptions, RunOptions, StartOptions } from './types.ts'

/** The options of calls that build their own request. The daemon refuses unknown fields of all other requests. */

export const execOptions: ReadonlyArray<keyof ExecOptions> = [
  'timeoutMs',
  'shell',
  'onOutput',
  'maxOutputBytes',
  'execId',
  'signal',
]

export const runOptions: ReadonlyArray<keyof RunOptions> = [
  'args',
  'env',
  'cwd',
  'timeoutMs',
  'stdin',
  'maxOutputBytes',
  'output',
  'signal',
]

export const startOptions: ReadonlyArray<keyof StartOptions | 'extra'> = [
  ...runOptions,
  'execId',
  'stdinOpen',
  'detach',
  'outputBufferBytes',
  'extra',
]

export const listOptions: ReadonlyArray<keyof ListSessionsOptions> = [
  'status',
  'name',
  'subject',
  'labels',
  'limit',
  'cursor',
  'signal',
]
