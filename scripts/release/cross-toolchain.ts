import { execFile } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { findRust, pathWith } from '../../packages/engine/src/runner/rust.ts'

/** A Rust for x64 that compiles for arm64, the linker, and an emulator to run the result. */
export interface Toolchain extends Disposable {
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
  readonly qemu: string
}

/**
 * Debian packages, unpacked into a temporary folder. Nothing is installed: apt stores the lists of both architectures in that
 * folder too, so the machine does not change. Both copies of `libstd-rust-web-dev` must have the same version.
 */
const packages = [
  ...['rustc-web', 'libstd-rust-web-dev', 'libstd-rust-web-dev:arm64', 'qemu-user-static'],
  ...['binutils-aarch64-linux-gnu', 'libc6-dev-arm64-cross', 'libc6-arm64-cross', 'libgcc-s1-arm64-cross'],
  // For the gateway's cryptography, which is partly C and assembly.
  'linux-libc-dev-arm64-cross',
]

export async function unpackToolchain(): Promise<Toolchain> {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Error('cross-building needs Debian on x64')
  // Debian's cargo needs more libraries than its rustc; the cargo of this machine works with both.
  const { rust } = await findRust()
  if (!rust) throw new Error('cargo is not installed')
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-cross-'))
  const dispose = () => rmSync(folder, { recursive: true, force: true })
  try {
    const usr = await unpack(folder)
    const compiler = globSync(`${usr}/bin/aarch64-linux-gnu-gcc-[0-9]*`)[0]!
    return {
      folder,
      env: {
        PATH: pathWith(rust),
        RUSTC: `${usr}/bin/rustc`,
        LD_LIBRARY_PATH: `${usr}/lib/x86_64-linux-gnu`,
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER: compiler,
        CC_aarch64_unknown_linux_gnu: compiler,
        AR_aarch64_unknown_linux_gnu: `${usr}/bin/aarch64-linux-gnu-ar`,
      },
      qemu: `${usr}/bin/qemu-aarch64-static`,
      [Symbol.dispose]: dispose,
    }
  } catch (error) {
    dispose()
    throw error
  }
}

async function unpack(folder: string): Promise<string> {
  for (const name of ['lists/partial', 'cache/archives/partial', 'packages', 'root'])
    mkdirSync(path.join(folder, name), { recursive: true })
  const settings = [
    `Dir::State::Lists=${folder}/lists`,
    `Dir::Cache=${folder}/cache`,
    'APT::Sandbox::User=root',
    'APT::Architecture=amd64',
    'APT::Architectures::=amd64',
    'APT::Architectures::=arm64',
  ].flatMap((setting) => ['-o', setting])
  const cwd = path.join(folder, 'packages')
  await run('apt-get', ['update', '-qq', ...settings], { cwd })
  await run('apt-get', ['download', '-qq', ...settings, ...packages, ...(await versioned(settings))], { cwd })
  for (const file of globSync('*.deb', { cwd }))
    await run('dpkg-deb', ['--extract', path.join(cwd, file), path.join(folder, 'root')])
  return path.join(folder, 'root/usr')
}

/** Packages with a version in their names, found as dependencies of packages without one. */
async function versioned(settings: readonly string[]): Promise<string[]> {
  const dependency = async (of: string, pattern: RegExp): Promise<string> => {
    const { stdout } = await run('apt-cache', ['depends', ...settings, of])
    const name = [...stdout.matchAll(/Depends: (\S+)/g)]
      .map(([, name]) => name!)
      .find((name) => pattern.test(name))
    if (name === undefined) throw new Error(`apt finds no dependency ${pattern} of ${of}`)
    return name
  }
  const gcc = await dependency('gcc-aarch64-linux-gnu', /^gcc-\d+-/)
  const std = await dependency('libstd-rust-web-dev', /^libstd-rust-web-/)
  const libgcc = gcc.replace(/^gcc-(\d+)-.*/, 'libgcc-$1-dev-arm64-cross')
  return [gcc, gcc.replace('gcc', 'cpp'), libgcc, std, await dependency(std, /^libllvm/)]
}

const run = promisify(execFile)
