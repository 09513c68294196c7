/** The command as users have it: packed, installed into an empty project, with the prebuilt runner. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildProgram, buildRunner } from '../../packages/engine/src/runner/build-runner.ts'
import { packAll } from '../../scripts/release/pack.ts'
import { root } from '../../scripts/tools.ts'
import { folderIn, type Workplace } from '../engine/workplace.ts'

/** The path of the installed `sandkasten`. */
export async function installCommand(place: Workplace): Promise<string> {
  execFileSync(process.execPath, ['scripts/build.ts'], { cwd: root, stdio: 'ignore' })
  const files = { runner: await buildRunner(), gateway: await buildProgram('gateway') }
  const tarballs = await packAll([{ arch: process.arch, files }], folderIn(place, 'tarballs'))
  const dependencies = Object.fromEntries(tarballs.map(({ name, file }) => [name, `file:${file}`]))
  const project = folderIn(place, 'project')
  writeFileSync(join(project, 'package.json'), JSON.stringify({ private: true, dependencies }))
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--silent'], { cwd: project })
  return join(project, 'node_modules/sandkasten/bin/sandkasten.js')
}
