import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = path.resolve(fileURLToPath(import.meta.url), '../..')

/** A signal asked this process to end while a program was running. */
export class Interrupted extends Error {
  readonly exitCode: number

  constructor(signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`)
    this.exitCode = 128 + constants.signals[signal]
  }
}

export interface RunOptions {
  cwd?: string
  env?: Record<string, string>
  /** Delays a signal until the program has ended. For apt-get: an interruption would leave packages half installed. */
  uninterruptible?: boolean
  /** Shows its output on stderr, because another program may read our stdout. */
  toStderr?: boolean
}

/**
 * Runs a program of the workspace, shows its output, and resolves with its exit code. A signal to this process is forwarded to
 * the program, so that it does not outlive this process; then `Interrupted` is thrown.
 */
export function run(cmd: string, args: readonly string[], options: RunOptions = {}): Promise<number> {
  const bin = path.join(root, 'node_modules/.bin')
  const { PATH = process.env.PATH, ...more } = options.env ?? {}
  const env = { ...process.env, ...more, PATH: `${bin}${path.delimiter}${PATH}` }
  const child = spawn(cmd, [...args], {
    cwd: options.cwd ?? root,
    env,
    stdio: ['ignore', options.toStderr ? 2 : 'inherit', 'inherit'],
  })
  let interrupted: NodeJS.Signals | undefined
  const interrupt = (signal: NodeJS.Signals) => {
    interrupted = signal
    if (!options.uninterruptible) child.kill(signal)
  }
  for (const signal of endings) process.on(signal, interrupt)
  return new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      if (interrupted) reject(new Interrupted(interrupted))
      else resolve(signal ? 1 : (code ?? 1))
    })
  }).finally(() => {
    for (const signal of endings) process.off(signal, interrupt)
  })
}

const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Waits for programs that run at the same time, and resolves with the first exit code that is not 0. */
export async function together(running: ReadonlyArray<Promise<number>>): Promise<number> {
  return (await Promise.all(running)).find((code) => code !== 0) ?? 0
}

/** Runs stages in order, prints the duration of each, and exits with 1 at the first failure. */
export async function stages(
  list: ReadonlyArray<{ name: string; run: () => Promise<number> }>,
): Promise<void> {
  for (const stage of list) {
    const startedAt = performance.now()
    console.log(`\n▸ ${stage.name}`)
    const code = await stage.run().catch((error) => {
      if (error instanceof Interrupted) process.exit(error.exitCode)
      throw error
    })
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    if (code !== 0) {
      console.error(`✗ ${stage.name} failed after ${seconds} s`)
      process.exit(1)
    }
    console.log(`✓ ${stage.name} (${seconds} s)`)
  }
}
