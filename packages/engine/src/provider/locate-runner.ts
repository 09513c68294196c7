import { createRequire } from 'node:module'
import { SandboxError } from '@sandkasten/sdk'
import { buildProgram } from '../runner/build-runner.ts'
import { hasSource, type Program } from '../runner/source.ts'

/**
 * The path of the runner's binary: `SANDKASTEN_RUNNER`, else the platform package, else built from this checkout.
 * In a checkout the platform packages are empty, so the source is always used there.
 */
export function locateRunner(options: { onBuild?: () => void } = {}): Promise<string> {
  return locate('runner', options.onBuild)
}

/** The path of the gateway's binary, which is found like the runner's, with `SANDKASTEN_GATEWAY`. */
export function locateGateway(options: { onBuild?: () => void } = {}): Promise<string> {
  return locate('gateway', options.onBuild)
}

async function locate(program: Program, onBuild: (() => void) | undefined): Promise<string> {
  const variable = `SANDKASTEN_${program.toUpperCase()}`
  const prebuilt = process.env[variable] || prebuiltProgram(program)
  if (prebuilt) return prebuilt
  if (hasSource(program)) return buildProgram(program, onBuild)
  const name = `@sandkasten/runner-linux-${process.arch}`
  throw new SandboxError('unavailable', `The package ${name} is not installed, so there is no ${program}.`, {
    hint: `Install it with: npm install ${name}. Or set ${variable} to the path of a ${program} that you built.`,
  })
}

/** The binary in the optional package for this platform; undefined if that package is not installed or is empty. */
function prebuiltProgram(program: Program): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(`@sandkasten/runner-linux-${process.arch}/${program}`)
  } catch {
    return undefined
  }
}
