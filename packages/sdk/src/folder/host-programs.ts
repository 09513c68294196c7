import { execFile } from 'node:child_process'
import { realpathSync, statSync } from 'node:fs'
import path from 'node:path'
import { hasRuntime, noRuntime, type Programs, type RuntimeProgram, runtimeNames } from '../shared/runtime.ts'

const commands: Readonly<Record<RuntimeProgram, string>> = { node: 'node', python: 'python3' }

export interface HostProgramsOptions {
  /** The search path of the sandboxes. */
  readonly path: string
  /** Whether sandboxes see this file, given without symbolic links. Default: all. */
  readonly isVisible?: (file: string) => boolean
}

/** The programs of this machine that its sandboxes would run. Asks each program for its version. */
export async function hostPrograms(options: HostProgramsOptions): Promise<Programs> {
  const found = Object.entries(commands).map(async ([program, command]) => {
    const file = find(command, options)
    return [program, file === undefined ? undefined : await versionOf(file, options.path)] as const
  })
  return Object.fromEntries((await Promise.all(found)).filter(([, version]) => version !== undefined))
}

/** Throws `unsupported` unless the programs of this machine are the runtime. */
export async function needHostRuntime(
  provider: string,
  runtime: string,
  options: HostProgramsOptions,
): Promise<void> {
  const programs = await hostPrograms(options)
  if (hasRuntime(programs, runtime)) return
  throw noRuntime(provider, runtime, runtimeNames(programs), 'Sandboxes use the programs of this machine.')
}

/** The first visible one: a sandbox does not find a program whose file it does not see. */
function find(command: string, { path: folders, isVisible = () => true }: HostProgramsOptions) {
  for (const folder of folders.split(path.delimiter)) {
    const file = path.join(folder, command)
    try {
      const stats = statSync(file)
      if (stats.isFile() && (stats.mode & 0o111) !== 0 && isVisible(realpathSync(file))) return file
    } catch {
      // It is not in this folder.
    }
  }
  return undefined
}

/** Results are kept for a minute, because a start of a program takes longer than a create. */
const keptMs = 60_000
const kept = new Map<string, { until: number; version: Promise<string | undefined> }>()

function versionOf(file: string, searchPath: string): Promise<string | undefined> {
  const { mtimeMs, size } = statSync(file)
  const key = [file, mtimeMs, size, searchPath].join('\0')
  const known = kept.get(key)
  if (known && known.until > performance.now()) return known.version
  if (kept.size > 100) kept.clear()
  const version = ask(file, searchPath)
  kept.set(key, { until: performance.now() + keptMs, version })
  return version
}

function ask(file: string, searchPath: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const env = { PATH: searchPath, HOME: '/nonexistent' }
    execFile(file, ['--version'], { env, cwd: '/', timeout: 10_000, maxBuffer: 65_536 }, (error, stdout) =>
      resolve(error ? undefined : /^(?:v|Python )(\d+(?:\.\d+)*)\s*$/.exec(stdout)?.[1]),
    )
  })
}
