/** Finds a Rust that can build our programs. `npm start` and `npm test` use it too, to decide whether to install Rust. */
import { execFile } from 'node:child_process'
import { accessSync, constants, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { neededRust, type Program, runnerFolder } from './source.ts'

export interface Rust {
  /** The folder of `cargo` and `rustc`. Put it first in PATH: an older cargo may come before it. */
  readonly folder: string
  readonly version: string
}

export interface RustSearch {
  readonly rust?: Rust
  /** The `rust-version` of the program’s Cargo.toml. */
  readonly needed: string
  /** Toolchains that are not usable, with the reason: `/usr/bin (1.63.0)`. */
  readonly unusable: readonly string[]
}

export interface SearchOptions {
  /** The program to build. Default: the runner. */
  readonly program?: Program
  /** Default: `process.env`. */
  readonly env?: NodeJS.ProcessEnv
  /** Searched after PATH. Default: the folders where rustup and Debian install cargo. */
  readonly usualFolders?: readonly string[]
}

export async function findRust(options: SearchOptions = {}): Promise<RustSearch> {
  const { env = process.env } = options
  const onPath = (env.PATH ?? '').split(path.delimiter).filter((folder) => path.isAbsolute(folder))
  const folders = new Set([...onPath, ...(options.usualFolders ?? usualFolders(env))])
  const needed = neededRust(options.program)
  const unusable: string[] = []
  const seen = new Set<string>()
  for (const folder of folders) {
    if (!isProgram(path.join(folder, 'cargo'))) continue
    // /bin is often a link to /usr/bin.
    const real = realpathSync(folder)
    if (seen.has(real)) continue
    seen.add(real)
    const version = await versionIn(folder, env)
    if (version !== undefined && isAtLeast(version, needed))
      return { rust: { folder, version }, needed, unusable }
    unusable.push(`${folder} (${version ?? 'does not run'})`)
  }
  return { needed, unusable }
}

/** PATH for a process that uses this Rust. */
export function pathWith({ folder }: Rust, env: NodeJS.ProcessEnv = process.env): string {
  return `${folder}${path.delimiter}${env.PATH ?? ''}`
}

/** Compares the numbers at the beginning: `1.96.0+dfsg1-1~deb12u2` is at least `1.88`. */
export function isAtLeast(version: string, needed: string): boolean {
  const [a, b] = [version, needed].map(numbersOf)
  for (const index of [0, 1, 2]) if (a![index] !== b![index]) return a![index]! > b![index]!
  return true
}

function numbersOf(version: string): number[] {
  const [, ...parts] = /^(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? []
  return [0, 1, 2].map((index) => Number(parts[index] ?? 0))
}

function usualFolders(env: NodeJS.ProcessEnv): string[] {
  const home = env.CARGO_HOME ?? path.join(env.HOME ?? homedir(), '.cargo')
  return [path.join(home, 'bin'), '/usr/local/cargo/bin', '/usr/local/bin', '/usr/bin']
}

/**
 * The lower version of `cargo` and `rustc`. Undefined if one of them does not run, such as rustup’s without a
 * toolchain.
 */
async function versionIn(folder: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const version = async (program: string) => {
    const { stdout } = await promisify(execFile)(program, ['--version'], {
      // From the runner's folder: rustup chooses the toolchain by the working directory.
      cwd: runnerFolder,
      env: { ...env, PATH: pathWith({ folder, version: '' }, env), RUSTUP_AUTO_INSTALL: '0' },
      timeout: 20_000,
    })
    return /\d+\.\d+\.\d+/.exec(stdout)![0]
  }
  try {
    const [cargo, rustc] = await Promise.all([version('cargo'), version('rustc')])
    return isAtLeast(cargo!, rustc!) ? rustc : cargo
  } catch {
    return undefined
  }
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
