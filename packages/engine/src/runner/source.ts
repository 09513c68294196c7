/** The Rust sources in this checkout, and the binaries built from them. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'

/** A program of ours in Rust: its folder in the repository and its binary are called after it. */
export type Program = 'runner' | 'gateway'

const repository = path.resolve(import.meta.dirname, '../../../..')

/** Where `build.sh` puts the binary. */
const outputs: Readonly<Record<Program, string>> = {
  runner: 'target/release',
  gateway: `target/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-unknown-linux-gnu/release`,
}

export const runnerFolder = sourceFolder('runner')

export function sourceFolder(program: Program): string {
  return path.join(repository, program)
}

/** The built runner, or undefined if it does not exist or the source has changed since. */
export function builtRunner(): string | undefined {
  return builtProgram('runner')
}

export function builtProgram(program: Program): string | undefined {
  const folder = sourceFolder(program)
  const binary = path.join(folder, outputs[program], program)
  const built = statSync(binary, { throwIfNoEntry: false })?.mtimeMs
  if (built === undefined) return undefined
  // Cargo checks this too, but takes a tenth of a second before every command.
  const sources = readdirSync(path.join(folder, 'src'), { recursive: true, encoding: 'utf8' })
  const files = [...sources.map((file) => `src/${file}`), 'Cargo.toml', 'Cargo.lock', '.cargo/config.toml']
  const isOlder = (file: string) => (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) < built
  return files.every((file) => isOlder(path.join(folder, file))) ? binary : undefined
}

export function hasSource(program: Program): boolean {
  return existsSync(path.join(sourceFolder(program), 'Cargo.toml'))
}

/** The oldest Rust that builds it: `rust-version` in Cargo.toml. */
export function neededRust(program: Program = 'runner'): string {
  const text = readFileSync(path.join(sourceFolder(program), 'Cargo.toml'), 'utf8')
  return /^rust-version = "([\d.]+)"/m.exec(text)![1]!
}
