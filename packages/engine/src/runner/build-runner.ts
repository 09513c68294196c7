/**
 * Returns the path of a binary and builds it first if its source changed. For tests, benchmarks and development: a
 * release carries the binaries.
 */
import { execFile } from 'node:child_process'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { findRust, pathWith, type SearchOptions } from './rust.ts'
import { builtProgram, type Program, sourceFolder } from './source.ts'

const built = new Map<Program, Promise<string>>()

/** `onBuild` is called before a build. The next call retries a failed build. */
export function buildRunner(onBuild?: () => void): Promise<string> {
  return buildProgram('runner', onBuild)
}

export function buildProgram(program: Program, onBuild?: () => void): Promise<string> {
  const known = built.get(program)
  if (known) return known
  const building = build(program, onBuild).catch((error) => {
    built.delete(program)
    throw error
  })
  built.set(program, building)
  return building
}

async function build(program: Program, onBuild: (() => void) | undefined): Promise<string> {
  return builtProgram(program) ?? runBuild({ program, onBuild })
}

/** Runs `build.sh` with a Rust that is new enough. The error of a failed build carries cargo’s own output. */
export async function runBuild(
  options: SearchOptions & { script?: string; onBuild?: (() => void) | undefined } = {},
): Promise<string> {
  const { env = process.env, program = 'runner' } = options
  const { script = path.join(sourceFolder(program), 'build.sh') } = options
  const { rust, needed, unusable } = await findRust(options)
  if (!rust)
    throw new SandboxError(
      'unavailable',
      `Building the ${program} needs Rust ${needed} or newer, ${absent(unusable)}.`,
      {
        hint: `Install it with rustup (https://rustup.rs), or on Debian as root with npm start. Or set SANDKASTEN_${program.toUpperCase()} to the path of a built ${program}.`,
      },
    )
  options.onBuild?.()
  return new Promise((resolve, reject) => {
    const settings = { timeout: buildTimeoutMs, maxBuffer: 64 * 1024 * 1024 }
    execFile(script, { env: { ...env, PATH: pathWith(rust, env) }, ...settings }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout.trim())
      const reason = error.killed ? `did not end within ${buildTimeoutMs / 60_000} minutes` : 'failed'
      const output = tail(stderr || error.message)
      reject(
        new SandboxError(
          'unavailable',
          `Cannot build the ${program}: cargo ${rust.version} ${reason}.\n${output}`,
          {
            cause: error,
            hint: `Fix the errors that cargo reports and try again. ${program}/build.sh shows the full output.`,
          },
        ),
      )
    })
  })
}

const buildTimeoutMs = 600_000

function absent(unusable: readonly string[]): string {
  if (unusable.length === 0) return 'but this machine has no cargo'
  return `but this machine has only: ${unusable.join(', ')}`
}

/** The end of cargo’s output, where its error is. */
function tail(text: string): string {
  const lines = text.trim().split('\n')
  const shown = lines.slice(-60).join('\n').slice(-8_000)
  return lines.length > 60 ? `[…]\n${shown}` : shown
}
