/** Where the runner's binary is, built first if its source changed. For tests, benchmarks and development; a release carries the binary. */
import { execFile } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

let built: Promise<string> | undefined

/** `onBuild` is called when it takes a while. A build that failed is tried again by the next call. */
export function buildRunner(onBuild?: () => void): Promise<string> {
  built ??= build(onBuild).catch((error) => {
    built = undefined
    throw error
  })
  return built
}

async function build(onBuild: (() => void) | undefined): Promise<string> {
  const folder = fileURLToPath(new URL('../../../../runner/', import.meta.url))
  const binary = path.join(folder, 'target/release/runner')
  if (isNewerThanSource(binary, folder)) return binary
  onBuild?.()
  const { stdout } = await promisify(execFile)(path.join(folder, 'build.sh'), { timeout: 600_000 })
  return stdout.trim()
}

/** Cargo would find that out too, but takes a tenth of a second for it, before every command. */
function isNewerThanSource(binary: string, folder: string): boolean {
  const built = statSync(binary, { throwIfNoEntry: false })?.mtimeMs
  if (built === undefined) return false
  const sources = readdirSync(path.join(folder, 'src'), { recursive: true, encoding: 'utf8' })
  const files = [...sources.map((file) => `src/${file}`), 'Cargo.toml', 'Cargo.lock', '.cargo/config.toml']
  return files.every((file) => statSync(path.join(folder, file)).mtimeMs < built)
}
