import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { temporaryAccount } from '../../packages/engine/src/isolators/oci/testing/temporary-account.ts'
import { root, run } from '../tools.ts'
import type { Tarball } from './pack.ts'

/** The oldest supported Node, and the newest one that this repository is tested with. */
const nodes = [
  '22.18.0',
  JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).devDependencies.node as string,
]

/** Packages whose README has a snippet. Those of the engine and the daemon start isolated sandboxes. */
const readmes = ['sdk', 'engine', 'daemon']

/** Installs the tarballs into an empty project, as a user would, and runs the READMEs' snippets and the command there. */
export async function tryPackages(tarballs: readonly Tarball[]): Promise<number> {
  for (const node of nodes) {
    const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-trial-'))
    try {
      chmodSync(folder, 0o755)
      writeFileSync(path.join(folder, 'package.json'), JSON.stringify(project(tarballs, node)))
      const installed = await run('npm', ['install', '--no-audit', '--no-fund', '--silent'], { cwd: folder })
      if (installed !== 0) return installed
      await runAll(folder, `Node ${node}`, async (command) => {
        const home = path.join(folder, 'home')
        const env = { PATH: process.env.PATH, HOME: home, SANDKASTEN_HOME: home }
        return (await promisify(execFile)(command[0]!, command.slice(1), { cwd: folder, env })).stdout
      })
      if (process.getuid?.() === 0) await runAsAccount(folder, node)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
  return 0
}

/** npm leaves out the runner for another processor only if it is optional, as it is for the engine. */
function project(tarballs: readonly Tarball[], node: string) {
  const files = (optional: boolean) =>
    Object.fromEntries(
      tarballs
        .filter(({ name }) => name.includes('/runner-') === optional)
        .map(({ name, file }) => [name, `file:${file}`]),
    )
  return {
    private: true,
    type: 'module',
    dependencies: { ...files(false), node },
    optionalDependencies: files(true),
    allowScripts: { node: true },
  }
}

type Run = (command: readonly string[]) => Promise<string>

async function runAsAccount(folder: string, node: string): Promise<void> {
  await using account = await temporaryAccount({ checkout: folder, range: true })
  const at = path.join(account.home, '../checkout')
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
  // The project belongs to root, so the account works in its home.
  const inHome = ['sh', '-c', 'cd "$HOME" && exec "$@"', 'sh']
  await runAll(folder, `Node ${node}, ordinary account`, (command) =>
    account.run([...inHome, ...command.map((word) => word.replace(folder, at))], env),
  )
}

async function runAll(folder: string, where: string, execute: Run): Promise<void> {
  const node = path.join(folder, 'node_modules/.bin/node')
  for (const name of readmes) {
    const { code, prints } = snippetOf(name)
    const file = path.join(folder, `${name}.ts`)
    writeFileSync(file, code)
    expectOutput(`the snippet of ${name}`, where, await execute([node, file]), prints)
  }
  const sandkasten = (...args: string[]) =>
    execute([node, path.join(folder, 'node_modules/.bin/sandkasten'), ...args])
  expectOutput('sandkasten run', where, await sandkasten('run', '--', 'echo', 'isolated'), 'isolated')
  await sandkasten('sandbox', 'create', 'trial', '--yes')
  const named = await sandkasten('sandbox', 'exec', 'trial', '--', 'echo', 'named')
  await sandkasten('sandbox', 'destroy', 'trial', '--yes')
  expectOutput('sandkasten sandbox', where, named, 'named')
}

/** The first TypeScript block of a README, and its documented output. */
export function snippetOf(name: string): { code: string; prints: string } {
  const text = readFileSync(path.join(root, 'packages', name, 'README.md'), 'utf8')
  const code = /```ts\n(.*?)```/s.exec(text)?.[1]
  const prints = /^This prints `([^`]+)`/m.exec(text)?.[1]
  if (code === undefined || prints === undefined)
    throw new Error(`packages/${name}/README.md has no snippet, or does not say what it prints`)
  return { code, prints }
}

function expectOutput(what: string, where: string, stdout: string, expected: string): void {
  if (stdout.trim() !== expected)
    throw new Error(`${what} (${where}) printed "${stdout.trim()}", expected "${expected}"`)
  console.log(`${where}: ${what} prints "${expected}"`)
}
