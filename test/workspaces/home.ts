import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import { createOpencodeClient, type OpencodeClient } from '@opencode-ai/sdk/v2'
import { waitForHealth } from '@sandkasten/opencode'
import type { SandkastenPluginOptions } from '@sandkasten/opencode/plugin'
import { expect } from 'vitest'
import { bin } from '../../packages/cli/test/helper.ts'
import { type Place, temporaryPlace } from '../../packages/cli/test/sandbox/place.ts'
import { freePort } from '../../packages/opencode/src/testing/free-port.ts'
import { type ModelServer, modelConfig } from '../../packages/opencode/src/testing/model-server.ts'

const run = promisify(execFile)

/** The plugin as a checkout has it. opencode runs TypeScript. */
export const pluginSource = `file://${path.resolve(import.meta.dirname, '../../packages/opencode/src/plugin/index.ts')}`

/** A developer’s machine: a project in git, a registry, and opencode with the plugin. */
export interface Home extends AsyncDisposable {
  readonly place: Place
  readonly folder: string
  git(...args: string[]): Promise<string>
  file(name: string): Promise<string>
  write(name: string, text: string): Promise<void>
  remove(name: string): Promise<void>
  /** Waits until opencode has summed up the last prompt, which it does after its answer. */
  settled(client: OpencodeClient, sessionID: string): Promise<void>
  /** Files of the helper about workspaces. */
  remembered(): Promise<string[]>
  /** Removes what opencode at home remembers. Ends it first. */
  forget(): Promise<void>
  /** Starts opencode; ends the one before. */
  start(options?: StartOptions): Promise<Opencode>
}

export interface StartOptions {
  readonly plugin?: string
  readonly options?: SandkastenPluginOptions
  readonly config?: Record<string, unknown>
  readonly env?: Record<string, string>
}

export interface Opencode {
  readonly client: OpencodeClient
  readonly url: string
  readonly pid: number
  log(): string
  /** Ends it without a chance to clean up. */
  kill(): Promise<void>
  stop(): Promise<void>
}

/** Moves a session into a workspace, or home. Returns the status, and what is wrong. */
export async function warp(client: OpencodeClient, id: string | null, sessionID: string) {
  // The SDK’s types do not know that null means home.
  const options = { id: id as string, sessionID, copyChanges: true }
  const { response, error } = await client.experimental.workspace.warp(options)
  const { data } = (error ?? {}) as { data?: { message?: string } }
  return [response!.status, data?.message]
}

export function opencodeBinary(): string {
  const require = createRequire(createRequire(import.meta.url).resolve('opencode-ai/package.json'))
  return require.resolve(`opencode-linux-${process.arch}/bin/opencode`)
}

export async function home(model: ModelServer): Promise<Home> {
  const place = await temporaryPlace()
  const folder = path.join(place.home, 'my-app')
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com']
  const git: Home['git'] = async (...args) =>
    (await run('git', ['-C', folder, ...identity, ...args])).stdout.trim()
  const write = (name: string, text: string) => writeFile(path.join(folder, name), text)
  await mkdir(folder)
  await write('sum.js', 'export const sum = (a, b) => a - b\n')
  await write('notes.txt', 'first\n')
  await git('init', '--quiet', '--initial-branch=main')
  await git('add', '.')
  await git('commit', '--quiet', '--message', 'first')
  await keepFromNpm(path.join(place.home, '.config/opencode'))
  let running: Opencode | undefined
  return {
    place,
    folder,
    git,
    write,
    remove: (name) => rm(path.join(folder, name)),
    file: (name) => readFile(path.join(folder, name), 'utf8'),
    async settled(client, sessionID) {
      await expect
        .poll(async () => {
          const users = (await client.session.messages({ sessionID })).data!.flatMap(({ info }) =>
            info.role === 'user' ? [info] : [],
          )
          return users.every(({ summary }) => summary !== undefined)
        })
        .toBe(true)
    },
    remembered: () => readdir(path.join(place.env.SANDKASTEN_HOME!, 'code')).catch(() => []),
    async forget() {
      await running?.stop()
      await rm(path.join(place.home, '.local/share/opencode'), { recursive: true })
    },
    async start({ plugin = pluginSource, options = {}, config, env } = {}) {
      await running?.stop()
      const plugins = [[plugin, { command: [process.execPath, bin], ...options }]]
      running = await startOpencode(folder, {
        ...place.env,
        OPENCODE_CONFIG_CONTENT: JSON.stringify({ ...modelConfig(model.url), plugin: plugins, ...config }),
        ...env,
      })
      return running
    },
    async [Symbol.asyncDispose]() {
      await running?.stop()
      await place.close()
    },
  }
}

/** Otherwise opencode waits for npm, which has no network here. */
async function keepFromNpm(config: string): Promise<void> {
  await mkdir(path.join(config, 'node_modules'), { recursive: true })
  const lock = { packages: { '': { dependencies: { '@opencode-ai/plugin': '*' } } } }
  await writeFile(path.join(config, 'package-lock.json'), JSON.stringify(lock))
}

async function startOpencode(directory: string, env: Record<string, string>): Promise<Opencode> {
  const port = await freePort()
  const child: ChildProcess = spawn(opencodeBinary(), ['serve', '--port', String(port), '--print-logs'], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      OPENCODE_EXPERIMENTAL_WORKSPACES: 'true',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      ...env,
    },
  })
  let log = ''
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
  const ended = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  await waitForHealth(url, { deadlineMs: 60_000 })
  return {
    url,
    pid: child.pid!,
    client: createOpencodeClient({ baseUrl: url, directory }),
    log: () => log,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
    async stop() {
      child.kill('SIGTERM')
      await ended
    },
  }
}
