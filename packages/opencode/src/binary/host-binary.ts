import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { Agent } from '../agents/index.ts'
import { readExecutable } from './elf.ts'
import type { Inspection } from './inspect.ts'

export interface HostBinary {
  readonly file: string
  readonly bytes: number
}

/** The program of this version in a package that is installed on this machine, and that runs in the sandbox. */
export function installedBinary(
  agent: Agent,
  version: string,
  sandbox: Pick<Inspection, 'arch' | 'libc' | 'avx2'>,
): HostBinary | undefined {
  if (sandbox.arch === 'other') return undefined
  for (const name of agent.platformPackages(sandbox.arch, sandbox.libc === 'musl', sandbox.avx2)) {
    const manifest = resolved(agent.package, `${name}/package.json`)
    if (manifest === undefined || JSON.parse(readFileSync(manifest, 'utf8')).version !== version) continue
    const file = path.join(path.dirname(manifest), agent.fileInPackage)
    if (existsSync(file)) return { file, bytes: statSync(file).size }
  }
  return undefined
}

/** The caller's own file, checked before it is copied. */
export async function givenBinary(
  file: string,
  agent: Agent,
  sandbox: Pick<Inspection, 'arch' | 'libc'>,
): Promise<HostBinary> {
  const stat = statSync(file, { throwIfNoEntry: false })
  if (!stat?.isFile())
    throw new SandboxError('invalid_argument', `The binary ${file} does not exist on this machine.`, {
      hint: `Pass the path of the program ${agent.program}, or leave \`binary\` out.`,
    })
  const built = await readExecutable(file)
  const libc = built?.libc !== undefined && sandbox.libc !== undefined && built.libc !== sandbox.libc
  if (built && (built.arch !== sandbox.arch || libc))
    throw new SandboxError(
      'unsupported',
      `The binary ${file} is for ${shown(built)}, and the sandbox has ${shown(sandbox)}.`,
      {
        hint: `Pass a build of ${agent.program} for the sandbox, or leave \`binary\` out.`,
        details: { binary: built, sandbox: { arch: sandbox.arch, libc: sandbox.libc } },
      },
    )
  return { file, bytes: stat.size }
}

/** Looked up beside this package, beside the caller's project, and beside the agent's own package. */
function resolved(parent: string, file: string): string | undefined {
  const places = [import.meta.url, path.join(process.cwd(), 'package.json')]
  for (const place of places) {
    const require = createRequire(place)
    const beside = attempt(() => require.resolve(file))
    if (beside !== undefined) return beside
    const manifest = attempt(() => realpathSync(require.resolve(`${parent}/package.json`)))
    const nested = manifest && attempt(() => createRequire(manifest).resolve(file))
    if (nested !== undefined) return nested
  }
  return undefined
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}

function shown({ arch, libc }: { arch: string; libc?: string | undefined }): string {
  return [arch, libc].filter((word) => word !== undefined).join(' with ')
}
