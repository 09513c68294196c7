import { SandboxError } from '../errors.ts'
import { checkObject } from '../shared/known-options.ts'
import { chunksOf } from '../shared/output/bytes.ts'
import type { SpawnOptions } from '../spec/index.ts'
import type { ProcessSpec } from './driver.ts'
import {
  checkCommand,
  checkCount,
  checkEnv,
  checkKnown,
  checkMs,
  checkPath,
  checkSource,
  invalid,
} from './validate.ts'

/** The options of commands: their checks, and what a driver gets. */

export function checkRunOptions(options: unknown): void {
  checkOptions(options, runOptions, 'runCommand()')
}

export function checkSpawnOptions(options: unknown): void {
  checkOptions(options, spawnOptions, 'spawn()')
}

export function processSpec(options: SpawnOptions, reading: boolean): ProcessSpec {
  const { stdin } = options
  if (stdin !== undefined && stdin !== 'pipe') checkSource(stdin, 'stdin')
  return {
    ...checkCommand(options.cmd, options.args),
    env: checkEnv(options.env),
    cwd: options.cwd === undefined ? undefined : checkPath(options.cwd, 'cwd'),
    timeoutMs: options.timeoutMs === undefined ? undefined : checkMs(options.timeoutMs, 'timeoutMs'),
    execId: options.execId === undefined ? undefined : checkExecId(options.execId),
    stdin: stdin === undefined ? 'empty' : stdin === 'pipe' ? 'pipe' : chunksOf(stdin),
    detached: options.detached ?? false,
    merged: checkOutput(options.output) === 'merged',
    reading,
    outputBufferBytes: checkCount(options.outputBufferBytes ?? 8 * 1024 * 1024, 'outputBufferBytes', 2 ** 30),
  }
}

function checkOutput(output: unknown): unknown {
  if (output === undefined || output === 'separate' || output === 'merged') return output
  throw invalid(`\`output\` is ${JSON.stringify(output)}.`, "Use 'separate' or 'merged'.")
}

function checkExecId(id: unknown): string {
  if (typeof id === 'string' && /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(id)) return id
  throw invalid(
    '`execId` must be 1 to 100 letters, digits, dots, dashes or underscores, and begin with a letter or digit.',
  )
}

/** A line of a shell given as `cmd` is the name of a program that does not exist. */
export function withLineHint(error: unknown, { cmd, args }: ProcessSpec): unknown {
  if (!SandboxError.is(error, 'command_not_found') || args.length > 0 || !/\s/.test(cmd)) return error
  const { code, message, provider, sandboxId, requestId, details, cause } = error
  const sdk =
    "`cmd` is the name of one program. Pass its arguments in `args`, or a line: cmd: 'sh', args: ['-c', line]."
  const hint = { sdk, http: sdk, cli: 'Write each argument as a word of its own, or use: sh -c LINE.' }
  return new SandboxError(code, message, { hint, provider, sandboxId, requestId, details, cause })
}

function checkOptions(options: unknown, known: readonly string[], call: string): void {
  const example = "For example { cmd: 'ls', args: ['-l'] }. For a line: { cmd: 'sh', args: ['-c', line] }."
  checkObject(options, call, example)
  checkKnown(options as object, known, call)
}

const spawnOptions = [
  'cmd',
  'args',
  'env',
  'cwd',
  'timeoutMs',
  'signal',
  'stdin',
  'output',
  'onStdout',
  'onStderr',
  'detached',
  'execId',
  'outputBufferBytes',
]

const runOptions = [
  'cmd',
  'args',
  'env',
  'cwd',
  'timeoutMs',
  'signal',
  'stdin',
  'output',
  'detached',
  'onStdout',
  'onStderr',
  'maxOutputBytes',
  'outputBudget',
]
