import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { inOrder, type Package } from '../packages.ts'
import type { Binaries } from './programs.ts'

export interface Tarball {
  /** The published name: `@sandkasten/sdk`. */
  readonly name: string
  readonly file: string
  readonly bytes: number
  readonly unpackedBytes: number
  readonly hasTypes: boolean
}

/**
 * Packs every package after its dependencies, which is also the publishing order. Omits a platform package if there is no
 * binary for it.
 */
export async function packAll(binaries: readonly Binaries[], output: string): Promise<Tarball[]> {
  return inOrder().flatMap((one) => {
    const { cpu } = one.manifest.publishConfig ?? {}
    if (cpu === undefined) return [pack(one, one.folder, output)]
    const files = binaries.find(({ arch }) => cpu.includes(arch))?.files
    return files === undefined ? [] : [packPlatform(one, files, output)]
  })
}

/** The repository has neither the binaries nor `os` and `cpu`: with them, `npm install` would fail in a checkout. */
function packPlatform(one: Package, files: NonNullable<Binaries['files']>, output: string): Tarball {
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-pack-'))
  try {
    cpSync(one.folder, folder, { recursive: true })
    for (const [program, file] of Object.entries(files)) copyFileSync(file, path.join(folder, program))
    const { publishConfig, ...manifest } = one.manifest
    writeFileSync(
      path.join(folder, 'package.json'),
      `${JSON.stringify({ ...manifest, ...publishConfig }, null, 2)}\n`,
    )
    return pack(one, folder, output)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function pack(one: Package, folder: string, output: string): Tarball {
  mkdirSync(output, { recursive: true })
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', output, folder]
  const stdout = execFileSync('npm', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  const reply = JSON.parse(stdout)
  const { filename, unpackedSize } = (Array.isArray(reply) ? reply : Object.values(reply))[0]
  const file = path.join(output, path.basename(filename))
  return {
    name: one.manifest.name,
    file,
    bytes: statSync(file).size,
    unpackedBytes: unpackedSize,
    hasTypes: one.manifest.exports !== undefined,
  }
}
