/** The runner’s source in this checkout, and the binary built from it. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'

export const runnerFolder = path.resolve(import.meta.dirname, '../../../../runner')

/** The built binary, or undefined if it does not exist or the source has changed since. */
export function builtRunner(): string | undefined {
  const binary = path.join(runnerFolder, 'target/release/runner')
  const built = statSync(binary, { throwIfNoEntry: false })?.mtimeMs
  if (built === undefined) return undefined
  // Cargo checks this too, but takes a tenth of a second before every command.
  const sources = readdirSync(path.join(runnerFolder, 'src'), { recursive: true, encoding: 'utf8' })
  const files = [...sources.map((file) => `src/${file}`), 'Cargo.toml', 'Cargo.lock', '.cargo/config.toml']
  return files.every((file) => statSync(path.join(runnerFolder, file)).mtimeMs < built) ? binary : undefined
}

/** The oldest Rust that builds it: `rust-version` in Cargo.toml. */
export function neededRust(): string {
  const text = readFileSync(path.join(runnerFolder, 'Cargo.toml'), 'utf8')
  return /^rust-version = "([\d.]+)"/m.exec(text)![1]!
}
