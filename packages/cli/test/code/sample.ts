import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import { isolationMissing } from '../../../daemon/src/testing/isolator.ts'
import { type ModelServer, startModelServer } from '../../../opencode/src/testing/model-server.ts'
import { type Ran, sandkasten } from '../helper.ts'
import { type Place, type RunOptions, temporaryPlace } from '../sandbox/place.ts'

const run = promisify(execFile)

/** Why the real agent cannot run here. */
export async function agentMissing(name = 'opencode-ai'): Promise<string | undefined> {
  try {
    createRequire(import.meta.url).resolve(`${name}/package.json`)
  } catch {
    return `${name} is not installed: node scripts/suites.ts opencode`
  }
  return isolationMissing()
}

export interface Sample extends AsyncDisposable {
  readonly place: Place
  readonly model: ModelServer
  /** The project on this machine. */
  readonly folder: string
  readonly env: Record<string, string>
  /** Runs `sandkasten code …` in the project, in a new process. */
  code(args: readonly string[], options?: RunOptions): Promise<Ran>
  git(...args: string[]): Promise<string>
  /** The name of the project's sandbox. */
  name(): Promise<string>
  /** Runs a shell line in it. */
  inside(line: string): Promise<string>
}

/** A small project in a git repository, with a home of its own and a scripted model. */
export async function sample(): Promise<Sample> {
  const place = await temporaryPlace()
  const model = await startModelServer()
  const folder = path.join(place.home, 'My App')
  await mkdir(folder)
  await writeFile(path.join(folder, 'sum.js'), 'export const sum = (a, b) => a - b\n')
  await writeFile(path.join(folder, 'notes.txt'), 'first\nsecond\n')
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com']
  const git = async (...args: string[]) =>
    (
      await run('git', ['-C', folder, ...identity, ...args], { env: { ...process.env, HOME: place.home } })
    ).stdout.trim()
  await git('init', '--quiet', '--initial-branch=main')
  await git('add', '.')
  await git('commit', '--quiet', '--message', 'first')
  const code: Sample['code'] = (args, { input, cwd = folder, env = {} } = {}) =>
    sandkasten(['code', ...args], { ...place.env, ...env }, { input, cwd })
  const name = async () => {
    const all = await place.json<Array<{ name: string }>>(['list'])
    return all.find((one) => one.name.startsWith('code-my-app-'))!.name
  }
  return {
    place,
    model,
    folder,
    env: place.env,
    code,
    git,
    name,
    inside: async (line) => place.ok(['exec', await name(), '--', 'sh', '-c', line]),
    async [Symbol.asyncDispose]() {
      await place.close()
      await model.close()
    },
  }
}
