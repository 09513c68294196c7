import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { runBuild } from '../../packages/engine/src/runner/build-runner.ts'
import { root, run } from '../tools.ts'
import { unpackToolchain } from './cross-toolchain.ts'

export interface Runner {
  /** Node's name of the processor. */
  readonly arch: string
  readonly file?: string
  /** Why there is no file. */
  readonly missing?: string
}

/** Processors by Node's name, by Rust's target and by their number in ELF. */
const targets = [
  { arch: 'x64', rust: 'x86_64-unknown-linux-gnu', elf: 62 },
  { arch: 'arm64', rust: 'aarch64-unknown-linux-gnu', elf: 183 },
] as const

/** Builds the runner for this machine's processor with cargo, and for arm64 with Debian's cross compiler. */
export async function buildRunners(output: string): Promise<Runner[]> {
  mkdirSync(output, { recursive: true })
  const runners: Runner[] = []
  for (const { arch, rust, elf } of targets) {
    const file = path.join(output, `runner-linux-${arch}`)
    try {
      if (arch === process.arch) await buildNative(file)
      else await buildCross(file, rust)
      assertStatic(file, elf)
      runners.push({ arch, file })
    } catch (error) {
      const { message } = error as Error
      console.error(`No runner for linux-${arch}: ${message}`)
      runners.push({ arch, missing: message })
    }
  }
  return runners
}

async function buildNative(file: string): Promise<void> {
  copyFileSync(await runBuild(), file)
  console.log(
    `${path.basename(file)}: version ${execFileSync(file, ['version'], { encoding: 'utf8' }).trim()}`,
  )
}

async function buildCross(file: string, target: string): Promise<void> {
  using toolchain = await unpackToolchain()
  const built = path.join(toolchain.folder, 'target')
  const args = ['build', '--release', '--locked', '--quiet', '--target', target, '--target-dir', built]
  const code = await run('cargo', args, { cwd: path.join(root, 'runner'), env: toolchain.env })
  if (code !== 0) throw new Error(`cargo build --target ${target} failed`)
  copyFileSync(path.join(built, target, 'release/runner'), file)
  const version = execFileSync(toolchain.qemu, [file, 'version'], { encoding: 'utf8' }).trim()
  console.log(`${path.basename(file)}: version ${version}, under qemu`)
}

/** A sandbox may have another libc or none. */
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
