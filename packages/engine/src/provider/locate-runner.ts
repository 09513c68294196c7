import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { SandboxError } from '@sandkasten/sdk'
import { buildRunner } from '../runner/build-runner.ts'

/**
 * The path of the runner's binary: from SANDKASTEN_RUNNER, built from this checkout, or carried by this package. In a
 * checkout a carried binary may be out of date.
 */
export async function locateRunner(options: { onBuild?: () => void } = {}): Promise<string> {
  const named = process.env.SANDKASTEN_RUNNER
  if (named) return named
  const carried = fileURLToPath(new URL(`../../runner/runner-linux-${process.arch}`, import.meta.url))
  const source = fileURLToPath(new URL('../../../../runner/Cargo.toml', import.meta.url))
  if (existsSync(source)) {
    try {
      return await buildRunner(options.onBuild)
    } catch (error) {
      if (!existsSync(carried)) throw error
    }
  }
  if (existsSync(carried)) return carried
  throw new SandboxError('unavailable', `This package has no runner for linux-${process.arch}.`, {
    hint: 'Build it from the source (runner/build.sh), and name its file in SANDKASTEN_RUNNER.',
  })
}
