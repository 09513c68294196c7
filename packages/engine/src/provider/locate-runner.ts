import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { buildRunner } from '../runner/build-runner.ts'
import { runnerFolder } from '../runner/source.ts'

/**
 * The path of the runner's binary: `SANDKASTEN_RUNNER`, else the platform package, else built from this checkout.
 * In a checkout the platform packages are empty, so the source is always used there.
 */
export async function locateRunner(options: { onBuild?: () => void } = {}): Promise<string> {
  const prebuilt = process.env.SANDKASTEN_RUNNER || prebuiltRunner()
  if (prebuilt) return prebuilt
  if (existsSync(path.join(runnerFolder, 'Cargo.toml'))) return buildRunner(options.onBuild)
  const name = `@sandkasten/runner-linux-${process.arch}`
  throw new SandboxError('unavailable', `The package ${name} is not installed, so there is no runner.`, {
    hint: `Install it with: npm install ${name}. Or set SANDKASTEN_RUNNER to the path of a runner that you built.`,
  })
}

/** The binary in the optional package for this platform; undefined if that package is not installed or is empty. */
export function prebuiltRunner(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(`@sandkasten/runner-linux-${process.arch}/runner`)
  } catch {
    return undefined
  }
}
