import { type SpawnOptions, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { configOf, type Daemon, startDaemon } from '@sandkasten/daemon'

export const bin = path.resolve(import.meta.dirname, '../bin/sandkasten.js')
export const key = 'sk-test-0123456789abcdef'

export interface Ran {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** The real command line in a process of its own, with nothing of this environment but PATH. */
export function start(args: readonly string[], env: Record<string, string>, options: SpawnOptions = {}) {
  return spawn(process.execPath, [bin, ...args], {
    ...options,
    env: { PATH: process.env.PATH, HOME: '/nonexistent', ...env },
  })
}

export async function sandkasten(
  args: readonly string[],
  env: Record<string, string>,
  { input, cwd }: { input?: string | Buffer; cwd?: string } = {},
): Promise<Ran> {
  const child = start(args, env, { stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'], cwd })
  // The command may end without reading its input.
  child.stdin?.on('error', () => {})
  child.stdin?.end(input)
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name]!.setEncoding('utf8').on('data', (text: string) => {
      said[name] += text
    })
  return new Promise((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal, ...said }))
  })
}

/** A daemon without isolation in a folder of its own, and the environment in which the command line finds it. */
export async function testDaemon(config: object = {}): Promise<{
  home: string
  daemon: Daemon
  env: { SANDKASTEN_URL: string; SANDKASTEN_API_KEY: string }
  close: () => Promise<void>
}> {
  const home = await mkdtemp(path.join(tmpdir(), 'sandkasten-cli-test-'))
  const daemon = await startDaemon({
    config: configOf({
      listen: '127.0.0.1:0',
      data_dir: path.join(home, 'data'),
      isolator: 'process',
      api_key: key,
      log_level: 'silent',
      ...config,
    }),
  })
  return {
    home,
    daemon,
    env: { SANDKASTEN_URL: daemon.url, SANDKASTEN_API_KEY: key },
    async close() {
      const headers = { authorization: `Bearer ${key}` }
      const live = 'creating,running,paused,stopped,crashed'
      const listed = await fetch(`${daemon.url}/v1/sessions?status=${live}&limit=1000`, { headers })
      for (const { id } of ((await listed.json()) as { sessions: Array<{ id: string }> }).sessions)
        await fetch(`${daemon.url}/v1/sessions/${id}`, { method: 'DELETE', headers })
      await daemon.close()
      await rm(home, { recursive: true, force: true })
    },
  }
}
