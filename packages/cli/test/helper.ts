import { type SpawnOptions, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { configOf, type Daemon, startDaemon } from '@sandkasten/daemon'
import { vi } from 'vitest'
import { main } from '../src/main.ts'

export const bin = path.resolve(import.meta.dirname, '../bin/sandkasten.js')
export const key = 'sk-test-0123456789abcdef'

export interface Ran {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** Starts the real command line in a new process, with only PATH and Node's cache from this environment. */
export function start(args: readonly string[], env: Record<string, string>, options: SpawnOptions = {}) {
  return spawn(process.execPath, [bin, ...args], {
    ...options,
    env: {
      PATH: process.env.PATH,
      HOME: '/nonexistent',
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      ...env,
    },
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

/** Runs the command line in this process, for tests with many commands: starting Node for each is slow. */
export async function inProcess(args: readonly string[], env: Record<string, string>): Promise<Ran> {
  const said = { stdout: '', stderr: '' }
  const note = (where: keyof typeof said) => (text: unknown, done?: unknown) => {
    said[where] += typeof text === 'string' ? text : Buffer.from(text as Uint8Array).toString()
    if (typeof done === 'function') done()
    return true
  }
  const spies = (['stdout', 'stderr'] as const).flatMap((where) => [
    vi.spyOn(process[where], 'write').mockImplementation(note(where)),
    vi
      .spyOn(console, where === 'stdout' ? 'log' : 'error')
      .mockImplementation((text) => void note(where)(`${text}\n`)),
  ])
  const before = { ...process.env }
  Object.assign(process.env, env)
  try {
    return { code: await main([process.execPath, bin, ...args]), signal: null, ...said }
  } finally {
    for (const spy of spies) spy.mockRestore()
    for (const name of Object.keys(env)) delete process.env[name]
    Object.assign(process.env, before)
  }
}

/**
 * Starts a daemon without isolation in a temporary folder. Returns the environment in which the command line finds
 * it.
 */
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
