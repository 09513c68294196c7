/** Programs of the clients that the image `host` does not have, as mounts, and clients that this machine lacks. */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { pythonWith } from '../../python.ts'
import { type Client, goProgram } from './clients.ts'

const execute = promisify(execFile)

export interface Tools {
  readonly mounts: ReadonlyArray<{ source: string; target: string }>
  readonly env: Readonly<Record<string, string>>
  /** Why the client cannot run here, by what it needs. */
  readonly missing: Readonly<Record<string, string>>
}

/** The image `host` shows this machine's `/usr`, and nothing from homes. */
export async function findTools(folder: string): Promise<Tools> {
  const missing: Record<string, string> = {}
  const mounts = [{ source: dirname(realpathSync(process.execPath)), target: '/opt/node' }]
  const env: Record<string, string> = {}
  for (const program of ['git', 'npm', 'curl', 'python3', 'java'])
    if (!['/usr/bin', '/usr/local/bin'].some((place) => existsSync(join(place, program))))
      missing[program] = `${program} is not in /usr/bin or /usr/local/bin`
  const compiling = compileGo(folder)
  // A failure is reported where it is awaited.
  compiling.catch(() => {})
  const rust = await output('rustc', ['--print', 'sysroot'])
  if (rust === undefined) missing.cargo = 'Rust is not installed'
  else mounts.push({ source: rust, target: '/opt/rust' })
  const python = await pythonWith('requests==2.34.2')
  if ('missing' in python) missing.requests = python.missing
  else {
    const packages = await output(python.python, [
      '-c',
      'import sysconfig; print(sysconfig.get_path("purelib"))',
    ])
    mounts.push({ source: packages!, target: '/opt/python' })
    env.PYTHONPATH = '/opt/python'
  }
  if ((await output('/usr/bin/python3', ['-m', 'pip', '--version'])) === undefined)
    missing.pip = 'pip is not installed for /usr/bin/python3: apt-get install python3-pip'
  const go = await compiling
  if ('missing' in go) missing.go = go.missing
  else mounts.push({ source: go.folder, target: '/opt/go-client' }, { source: go.root, target: '/opt/go' })
  env.PATH = '/opt/node:/opt/rust/bin:/opt/go/bin:/usr/local/bin:/usr/bin:/bin'
  return { mounts, env, missing }
}

export function reasonToSkip({ needs }: Client, { missing }: Tools): string | undefined {
  return missing[needs]
}

async function compileGo(folder: string): Promise<{ folder: string; root: string } | { missing: string }> {
  const root = await output('go', ['env', 'GOROOT'])
  if (root === undefined) return { missing: 'Go is not installed: apt-get install golang-go' }
  const target = join(folder, 'go-client')
  mkdirSync(target)
  writeFileSync(join(target, 'main.go'), goProgram)
  const env = { ...process.env, CGO_ENABLED: '0', GO111MODULE: 'off' }
  await execute('go', ['build', '-o', join(target, 'go-client'), join(target, 'main.go')], { env })
  return { folder: target, root }
}

/** Undefined if the program is missing or fails. */
async function output(program: string, args: readonly string[]): Promise<string | undefined> {
  return execute(program, [...args]).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  )
}
