import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Ran, sandkasten } from '../helper.ts'

export interface Place {
  readonly home: string
  readonly env: Record<string, string>
  /** Runs `sandkasten sandbox …` in a new process. */
  run(args: readonly string[], options?: RunOptions): Promise<Ran>
  /** The same, and fails unless it succeeds. */
  ok(args: readonly string[], options?: RunOptions): Promise<string>
  /** The parsed output of a command with --json. */
  json<T>(args: readonly string[]): Promise<T>
  /** Destroys all sandboxes and removes the folder. */
  close(): Promise<void>
}

export interface RunOptions {
  input?: string | Buffer
  cwd?: string
  env?: Record<string, string>
}

/** A home of its own: registry, key and sandboxes are in a temporary folder. */
export async function temporaryPlace(more: Record<string, string> = {}): Promise<Place> {
  const home = await mkdtemp(path.join(tmpdir(), 'sk-sandbox-'))
  const env = { HOME: home, SANDKASTEN_HOME: path.join(home, 'data'), NODE_NO_WARNINGS: '1', ...more }
  const run: Place['run'] = (args, { input, cwd = home, env: extra } = {}) =>
    sandkasten(['sandbox', ...args], { ...env, ...extra }, { input, cwd })
  const ok: Place['ok'] = async (args, options) => {
    const { code, stdout, stderr } = await run(args, options)
    if (code !== 0) throw new Error(`sandbox ${args.join(' ')}: ${code} ${stderr}`)
    return stdout.trim()
  }
  const json: Place['json'] = async (args) => JSON.parse(await ok([...args, '--json']))
  return {
    home,
    env,
    run,
    ok,
    json,
    async close() {
      const names = (await json<Array<{ name: string }>>(['list'])).map(({ name }) => name)
      if (names.length > 0) await run(['destroy', '--yes', '--force', ...names])
      await rm(home, { recursive: true, force: true })
    },
  }
}

/** A folder for PATH with all programs except `script`: without it the provider `local` has no terminals. */
export async function folderWithoutScript({ home }: Place): Promise<string> {
  const folder = path.join(home, 'programs')
  await mkdir(folder)
  for (const from of ['/bin', '/usr/bin'])
    for (const name of await readdir(from))
      if (name !== 'script') await symlink(path.join(from, name), path.join(folder, name)).catch(() => {})
  return folder
}
