/**
 * `node scripts/suites.ts [suite…]`: installs packages that only some tests and examples need, 400 MB in total.
 *
 * Each folder in test/suites has a manifest and a lock file. Its packages are linked into the workspace's node_modules,
 * where tests, examples and the SDK find them by name. `npm install` removes the links; this script adds them again.
 */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { root, run } from './tools.ts'

const folder = path.join(root, 'test/suites')
const modules = path.join(root, 'node_modules')

/** Returns 0, or the exit code of npm. */
export async function installSuites(names: readonly string[] = readdirSync(folder)): Promise<number> {
  for (const name of names) {
    const code = await installSuite(path.join(folder, name))
    if (code !== 0) return code
  }
  return 0
}

async function installSuite(suite: string): Promise<number> {
  const { dependencies } = JSON.parse(readFileSync(path.join(suite, 'package.json'), 'utf8'))
  const wanted = Object.entries<string>(dependencies)
  if (!wanted.every(([name, version]) => versionIn(suite, name) === version) || !isComplete(suite)) {
    const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
    const code = await run('npm', args, { cwd: suite, toStderr: true })
    if (code !== 0) return code
  }
  for (const [name] of wanted) {
    link(path.join(suite, 'node_modules', name), path.join(modules, name))
    for (const program of programsOf(suite, name))
      link(path.join(suite, 'node_modules/.bin', program), path.join(modules, '.bin', program))
  }
  return 0
}

/**
 * Whether every package is there that npm has installed. `npm install` in the workspace follows the links, and removes
 * packages that are nested in linked ones.
 */
export function isComplete(suite: string): boolean {
  const list = path.join(suite, 'node_modules/.package-lock.json')
  if (!existsSync(list)) return false
  const { packages } = JSON.parse(readFileSync(list, 'utf8')) as { packages: Record<string, object> }
  return Object.keys(packages).every((at) => existsSync(path.join(suite, at, 'package.json')))
}

function versionIn(suite: string, name: string): string | undefined {
  const file = path.join(suite, 'node_modules', name, 'package.json')
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).version : undefined
}

function programsOf(suite: string, name: string): string[] {
  const { bin = {} } = JSON.parse(
    readFileSync(path.join(suite, 'node_modules', name, 'package.json'), 'utf8'),
  )
  return typeof bin === 'string' ? [path.basename(name)] : Object.keys(bin)
}

/** Relative, so that the link works if the checkout is mounted at another path. */
function link(target: string, at: string): void {
  if (existsSync(at) && lstatSync(at).isSymbolicLink()) return
  rmSync(at, { recursive: true, force: true })
  mkdirSync(path.dirname(at), { recursive: true })
  symlinkSync(path.relative(path.dirname(at), target), at)
}

if (import.meta.main)
  process.exitCode = await installSuites(process.argv.length > 2 ? process.argv.slice(2) : undefined)
