/** Where the runner's binary is, built first if its source changed. For tests, benchmarks and development; a release carries the binary. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

let built: Promise<string> | undefined

export function buildRunner(): Promise<string> {
  built ??= build()
  return built
}

async function build(): Promise<string> {
  const script = fileURLToPath(new URL('../../../../runner/build.sh', import.meta.url))
  const { stdout } = await promisify(execFile)(script, { timeout: 600_000 })
  return stdout.trim()
}
