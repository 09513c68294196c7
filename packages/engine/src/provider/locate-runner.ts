import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { SandboxError } from '@sandkasten/sdk'
import { buildRunner } from '../runner/build-runner.ts'

/** The runner's binary: named by SANDKASTEN_RUNNER, carried by this package, or built from this checkout. */
export async function locateRunner(options: { onBuild?: () => void } = {}): Promise<string> {
  const named = process.env.SANDKASTEN_RUNNER
  if (named) return named
  const carried = fileURLToPath(new URL(`../../runner/runner-linux-${process.arch}`, import.meta.url))
  if (existsSync(carried)) return carried
  try {
    return await buildRunner(options.onBuild)
  } catch (cause) {
    throw new SandboxError(
      'unavailable',
      `There is no runner for linux-${process.arch}, and it could not be built.`,
      {
        cause,
        hint: 'Install Rust (cargo) and try again, or name a runner’s binary in SANDKASTEN_RUNNER.',
      },
    )
  }
}
