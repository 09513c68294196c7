import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { run } from '../tools.ts'
import type { Tarball } from './pack.ts'

/** Only a release needs these, so they are not in the lock file of the workspace. */
const tools = { publint: '0.3.25', '@arethetypeswrong/cli': '0.18.5' }

/** Checks that the tarballs work with Node, bundlers and TypeScript. */
export async function checkPackages(tarballs: readonly Tarball[]): Promise<number> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-lint-'))
  try {
    const manifest = { private: true, dependencies: tools }
    writeFileSync(path.join(folder, 'package.json'), JSON.stringify(manifest))
    const installed = await run('npm', ['install', '--no-audit', '--no-fund', '--silent'], { cwd: folder })
    if (installed !== 0) return installed
    let failed = 0
    for (const { name, file, hasTypes } of tarballs) {
      const unpacked = path.join(folder, 'unpacked', name)
      mkdirSync(unpacked, { recursive: true })
      execFileSync('tar', ['-xzf', file, '-C', unpacked, '--strip-components=1'])
      const bin = (program: string) => path.join(folder, 'node_modules/.bin', program)
      failed ||= await run(bin('publint'), ['run', '--strict', '--pack=false', unpacked])
      // All packages are ES modules, for Node versions that can require them.
      const types = ['--profile', 'esm-only', '--format', 'ascii', '--quiet']
      if (hasTypes) failed ||= await run(bin('attw'), [...types, file])
    }
    return failed
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
