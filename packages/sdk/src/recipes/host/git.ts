import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandboxError } from '../../errors.ts'
import { abortedError } from '../../shared/calls/abort.ts'

export interface GitCall {
  cwd?: string
  env?: Readonly<Record<string, string>>
  stdin?: string | Uint8Array | Readable
  /** Exit codes that are not errors. Default: only 0. */
  accept?: readonly number[]
  outputFile?: string
  maxOutputBytes?: number
  signal?: AbortSignal | undefined
}

export interface GitAnswer {
  code: number
  stdout: Buffer
  text: string
}

/**
 * Runs the local git with an argv, never through a shell. It takes no optional locks, starts no monitor and runs no
 * hook, so reading a repository does not change it.
 */
export async function git(args: readonly string[], call: GitCall = {}): Promise<GitAnswer> {
  const { signal, accept = [0], maxOutputBytes = 1 << 30 } = call
  if (signal?.aborted) throw abortedError(signal, `git ${subcommand(args)}`)
  const child = spawn('git', [...safety, ...args], {
    cwd: call.cwd,
    env: { ...cleanEnv(), ...call.env },
    stdio: ['pipe', 'pipe', 'pipe'],
    windowsHide: true,
    signal,
    killSignal: 'SIGKILL',
  })
  // Listens from the start: a missing git fails before anything else.
  const exit = new Promise<{ code: number } | { error: NodeJS.ErrnoException }>((resolve) => {
    child.once('error', (error) => resolve({ error }))
    child.once('close', (code) => resolve({ code: code ?? 137 }))
  })
  child.stdin.on('error', () => {}) // EPIPE: git's exit code and stderr are more informative.
  const feeding = feed(child.stdin, call.stdin)
  const [kept, stderr] = await Promise.all([
    call.outputFile === undefined
      ? keep(child.stdout, maxOutputBytes, () => child.kill('SIGKILL'))
      : pipeline(child.stdout, createWriteStream(call.outputFile, { mode: 0o600, flags: 'wx' })).then(() =>
          Buffer.alloc(0),
        ),
    keep(child.stderr, 64 * 1024),
  ]).catch((error) => {
    child.kill('SIGKILL')
    throw signal?.aborted ? abortedError(signal, `git ${subcommand(args)}`) : error
  })
  const end = await exit
  await feeding
  if (signal?.aborted) throw abortedError(signal, `git ${subcommand(args)}`)
  if ('error' in end) throw notStarted(end.error, call.cwd)
  if (kept === undefined) throw tooMuch(args, maxOutputBytes)
  if (!accept.includes(end.code)) throw failed(args, end.code, stderr?.toString('utf8') ?? '')
  return { code: end.code, stdout: kept, text: kept.toString('utf8').replace(/\r?\n$/, '') }
}

const safety = [
  '--no-optional-locks',
  '-c',
  'core.hooksPath=/dev/null',
  '-c',
  'core.fsmonitor=false',
  '-c',
  'gc.auto=0',
  '-c',
  'maintenance.auto=false',
]

/**
 * Git variables that are kept: the location of the configuration and the committer, not the location of the
 * repository.
 */
const kept =
  /^GIT_(CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|EXEC_PATH|SSL_.*|AUTHOR_.*|COMMITTER_.*|CEILING_DIRECTORIES)$/

function cleanEnv(): Record<string, string | undefined> {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^GIT_/i.test(name) || kept.test(name)),
  )
  return { ...env, LC_ALL: 'C', GIT_TERMINAL_PROMPT: '0', GIT_NO_LAZY_FETCH: '1' }
}

async function feed(stdin: NodeJS.WritableStream, source: GitCall['stdin']): Promise<void> {
  if (source === undefined || typeof source === 'string' || source instanceof Uint8Array) {
    stdin.end(source ?? '')
    return
  }
  await pipeline(source, stdin).catch(() => {})
}

/** Reads the whole stream; undefined if it exceeds the limit. */
async function keep(stream: Readable, maxBytes: number, onTooMuch?: () => void): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.byteLength
    if (size <= maxBytes) chunks.push(chunk)
    else if (onTooMuch) {
      onTooMuch()
      return undefined
    }
  }
  return Buffer.concat(chunks)
}

const subcommand = (args: readonly string[]): string =>
  args.find((arg, index) => !arg.startsWith('-') && args[index - 1] !== '-c' && args[index - 1] !== '-C') ??
  ''

function notStarted(cause: NodeJS.ErrnoException, cwd: string | undefined): SandboxError {
  return new SandboxError(
    'command_not_found',
    `git could not be started on this machine${cwd ? ` in ${cwd}` : ''} (${cause.code}).`,
    {
      hint: 'Install git on this machine and make sure that it is on PATH.',
      cause,
    },
  )
}

function failed(args: readonly string[], code: number, stderr: string): SandboxError {
  const said = redactUrls(stderr.trim().slice(-1000))
  const dubious = said.includes('dubious ownership')
  return new SandboxError(
    'provider_error',
    `The local git ${subcommand(args)} exited with code ${code}: ${said}`,
    {
      hint: dubious
        ? 'The project belongs to another user; allow it with git config --global --add safe.directory <projectDir>.'
        : 'Check that git works in projectDir; `git fsck` tells if its repository is damaged.',
      details: { exitCode: code },
    },
  )
}

function tooMuch(args: readonly string[], maxBytes: number): SandboxError {
  return new SandboxError('too_large', `git ${subcommand(args)} printed more than ${maxBytes} bytes.`, {
    details: { maxBytes },
  })
}

/** Git's messages repeat addresses, which may contain passwords. */
function redactUrls(text: string): string {
  return text.replaceAll(/(\w+:\/\/)[^\s/@]+@/g, '$1***@')
}
