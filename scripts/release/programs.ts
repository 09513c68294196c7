import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { runBuild } from '../../packages/engine/src/runner/build-runner.ts'
import type { Program } from '../../packages/engine/src/runner/source.ts'
import { root, run } from '../tools.ts'
import { type Toolchain, unpackToolchain } from './cross-toolchain.ts'

/** The binaries of one processor, which its package `runner-linux-*` contains, or why they are missing. */
export type Binaries = {
  /** Node's name of the processor. */
  readonly arch: string
} & (
  | { readonly files: Readonly<Record<Program, string>>; readonly missing?: undefined }
  | { readonly files?: undefined; readonly missing: string }
)

const programs: readonly Program[] = ['runner', 'gateway']

/** Processors by Node's name, by Rust's target and by their number in ELF. */
const targets = [
  { arch: 'x64', rust: 'x86_64-unknown-linux-gnu', elf: 62 },
  { arch: 'arm64', rust: 'aarch64-unknown-linux-gnu', elf: 183 },
] as const

/** Builds our programs for this machine's processor with cargo, and for arm64 with Debian's cross compiler. */
export async function buildBinaries(output: string): Promise<Binaries[]> {
  mkdirSync(output, { recursive: true })
  const all: Binaries[] = []
  for (const { arch, rust, elf } of targets) {
    const fileOf = (program: Program) => path.join(output, `${program}-linux-${arch}`)
    try {
      if (arch === process.arch) for (const program of programs) await buildNative(program, fileOf(program))
      else await buildCross(rust, fileOf)
      for (const program of programs) assertStatic(fileOf(program), elf)
      all.push({ arch, files: { runner: fileOf('runner'), gateway: fileOf('gateway') } })
    } catch (error) {
      const { message } = error as Error
      console.error(`No binaries for linux-${arch}: ${message}`)
      all.push({ arch, missing: message })
    }
  }
  return all
}

async function buildNative(program: Program, file: string): Promise<void> {
  copyFileSync(await runBuild({ program }), file)
  console.log(`${path.basename(file)}: version ${versionOf([file])}`)
}

async function buildCross(target: string, fileOf: (program: Program) => string): Promise<void> {
  using toolchain = await unpackToolchain()
  for (const program of programs) await crossBuild(program, target, fileOf(program), toolchain)
}

async function crossBuild(
  program: Program,
  target: string,
  file: string,
  toolchain: Toolchain,
): Promise<void> {
  const built = path.join(toolchain.folder, 'target')
  const args = ['build', '--release', '--locked', '--quiet', '--target', target, '--target-dir', built]
  // The runner has its flags in a file. Those of the gateway must not reach procedural macros (`gateway/build.sh`).
  const flags = program === 'gateway' ? { [flagsFor(target)]: '-C target-feature=+crt-static' } : {}
  const env = { ...toolchain.env, ...flags }
  const code = await run('cargo', args, { cwd: path.join(root, program), env })
  if (code !== 0) throw new Error(`cargo build --target ${target} of the ${program} failed`)
  copyFileSync(path.join(built, target, 'release', program), file)
  console.log(`${path.basename(file)}: version ${versionOf([toolchain.qemu, file])}, under qemu`)
}

function flagsFor(target: string): string {
  return `CARGO_TARGET_${target.toUpperCase().replaceAll('-', '_')}_RUSTFLAGS`
}

function versionOf([command, ...args]: [string, ...string[]]): string {
  return execFileSync(command, [...args, 'version'], { encoding: 'utf8' }).trim()
}

/** A sandbox, and the machine that the gateway runs on, may have another libc or none. */
function assertStatic(file: string, elf: number): void {
  const binary = readFileSync(file)
  if (binary.readUInt16LE(18) !== elf) throw new Error(`${file} is for another processor`)
  const [start, size, count] = [
    Number(binary.readBigUInt64LE(32)),
    binary.readUInt16LE(54),
    binary.readUInt16LE(56),
  ]
  const interpreter = 3
  for (let index = 0; index < count; index += 1)
    if (binary.readUInt32LE(start + index * size) === interpreter) throw new Error(`${file} is not static`)
}
