/** The command as users have it: packed, installed into an empty project, with the prebuilt runner. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildRunner } from '../../packages/engine/src/runner/build-runner.ts'
import { packAll } from '../../scripts/release/pack.ts'
import { root } from '../../scripts/tools.ts'
import { folderIn, type Workplace } from '../engine/workplace.ts'

/** The path of the installed `sandkasten`. */
export async function installCommand(place: Workplace): Promise<string> {
  execFileSync(process.execPath, ['scripts/build.ts'], { cwd: root, stdio: 'ignore' })
  const runners = [{ arch: process.arch, file: await buildRunner() }]
  const tarballs = await packAll(runners, folderIn(place, 'tarballs'))
  const files = tarballs.map(({ name, file }) => [name, `file:${file}`])
  const project = folderIn(place, 'project')
  writeFileSync(
    join(project, 'package.json'),
    JSON.stringify({ private: true, dependencies: Object.fromEntries(files) }),
  )
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--silent'], { cwd: project })
  return join(project, 'node_modules/sandkasten/bin/sandkasten.js')
}
