import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type AgentCredential, agentMount, sandboxOnly, waitForHealth } from '@sandkasten/opencode'
import { SandboxError } from '@sandkasten/sdk'
import type { AgentsOptions } from '../request.ts'

/** The server of this bot at home. */
export interface HomeAddress {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** In a file that only this user can read, so that the next process finds a server that a crash has left. */
interface SavedServer {
  readonly pid: number
  /** When the process started: a pid alone may belong to another process by now. */
  readonly started: string
  readonly port: number
  readonly password: string
  /** A checksum of what the server was started with. */
  readonly settings: string
}

interface RunningServer {
  readonly address: HomeAddress
  readonly saved: SavedServer
}

const startMs = 60_000
const healthMs = 5_000
const graceMs = 5_000

/** One opencode server at home. Calls may interleave; they share one start. */
export class HomeServer {
  readonly folder: string
  readonly #options: AgentsOptions
  #running: Promise<RunningServer> | undefined
  #isClosed = false

  constructor(options: AgentsOptions) {
    this.#options = options
    this.folder = options.homeFolder
  }

  /** Finds the server, or starts it. A server that has ended since is started again. */
  async address(): Promise<HomeAddress> {
    if (this.#isClosed) throw new SandboxError('aborted', 'opencode at home was closed.')
    const before = this.#running
    const running = await before?.catch(() => undefined)
    if (running && (await startOf(running.saved.pid)) === running.saved.started) return running.address
    return (await this.#begin(before)).address
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const running = await this.#running?.catch(() => undefined)
    this.#running = undefined
    if (!running) return
    await end(running.saved)
    await rm(this.#stateFile, { force: true })
  }

  get #stateFile(): string {
    return path.join(this.folder, 'server.json')
  }

  /** Of callers that find the same server ended, the first starts a new one. */
  #begin(before: Promise<RunningServer> | undefined): Promise<RunningServer> {
    if (this.#running && this.#running !== before) return this.#running
    const begun = this.#findOrStart()
    this.#running = begun
    begun.catch(() => {
      if (this.#running === begun) this.#running = undefined
    })
    return begun
  }

  async #findOrStart(): Promise<RunningServer> {
    const { homeConfig, config, homeCredentials, credentials, model } = this.#options
    await mkdir(this.folder, { recursive: true, mode: 0o700 })
    await chmod(this.folder, 0o700)
    const { env, directory } = await sandboxOnly({
      directory: path.join(this.folder, 'server'),
      alsoAllow: homeTools,
      config: { ...(homeConfig ?? config), ...(model !== undefined && { model }) },
    })
    const all = { ...env, ...(await this.#place()), ...credentialsAtHome(homeCredentials ?? credentials) }
    const settings = createHash('sha256').update(JSON.stringify(all)).digest('hex')
    const found = await this.#find(settings)
    if (found) return found
    const saved = await this.#start(all, directory, settings)
    return { saved, address: addressOf(saved) }
  }

  /** A server of an earlier process. One with other settings, or that does not answer, is ended. */
  async #find(settings: string): Promise<RunningServer | undefined> {
    const saved = await readSaved(this.#stateFile)
    if (!saved || (await startOf(saved.pid)) !== saved.started) return undefined
    const address = addressOf(saved)
    if (saved.settings === settings) {
      const health = waitForHealth(address.url, { headers: address.headers, deadlineMs: healthMs })
      if (await health.catch(() => undefined)) return { saved, address }
    }
    await end(saved)
    return undefined
  }

  async #start(
    env: Readonly<Record<string, string>>,
    directory: string,
    settings: string,
  ): Promise<SavedServer> {
    const binary = this.#options.binary ?? agentMount('opencode')?.source
    if (binary === undefined)
      throw new SandboxError('command_not_found', 'opencode is not installed on this machine.', {
        hint: 'Install it: npm install opencode-ai, or use a provider whose sandboxes can run it.',
      })
    const port = await freePort()
    const password = randomBytes(24).toString('base64url')
    const log = await open(path.join(this.folder, 'server.log'), 'w', 0o600)
    let child: ChildProcess
    try {
      // Detached: a signal for the bot's process group does not end it in the middle of an answer.
      child = spawn(binary, ['serve', '--port', String(port), '--hostname', '127.0.0.1'], {
        cwd: directory,
        detached: true,
        stdio: ['ignore', log.fd, log.fd],
        env: { ...env, OPENCODE_SERVER_USERNAME: user, OPENCODE_SERVER_PASSWORD: password },
      })
      await Promise.race([once(child, 'spawn'), failed(child, binary)])
    } finally {
      await log.close()
    }
    child.unref()
    const pid = child.pid!
    const started = await startOf(pid)
    const saved: SavedServer = { pid, started: started ?? '', port, password, settings }
    try {
      // Before it answers: a crash in between leaves a server that the next process finds.
      await writeSaved(this.#stateFile, saved)
      const { url, headers } = addressOf(saved)
      const stop = new AbortController()
      const ended = once(child, 'exit').then(() => stop.abort())
      ended.catch(() => {})
      await waitForHealth(url, { headers, deadlineMs: startMs, signal: stop.signal })
      return saved
    } catch (cause) {
      await end(saved)
      throw new SandboxError('unavailable', 'opencode could not start at home.', {
        cause,
        hint: `Read ${path.join(this.folder, 'server.log')}.`,
      })
    }
  }

  /** Its own home: no configuration, plugins or credentials of the user. */
  async #place(): Promise<Record<string, string>> {
    const home = path.join(this.folder, 'home')
    const config = path.join(home, '.config', 'opencode')
    await mkdir(path.join(config, 'node_modules'), { recursive: true, mode: 0o700 })
    // Otherwise opencode installs its plugin package from npm.
    const lock = { packages: { '': { dependencies: { '@opencode-ai/plugin': '*' } } } }
    await writeFile(path.join(config, 'package-lock.json'), JSON.stringify(lock))
    return {
      HOME: home,
      PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    }
  }
}

/** Tools that touch nothing of the host, and those of the thread. */
export const homeTools = ['todowrite', 'question', 'thread_*']

const user = 'opencode'

function addressOf({ port, password }: SavedServer): HomeAddress {
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
  return { url: `http://127.0.0.1:${port}`, headers: { authorization } }
}

function credentialsAtHome(credentials: readonly AgentCredential[] = []): Record<string, string> {
  const env: Record<string, string> = {}
  const auth: Record<string, unknown> = {}
  for (const one of credentials) {
    if (one.secret !== undefined)
      throw new SandboxError('unsupported', `The secret “${one.secret}” is added in sandboxes only.`, {
        hint: 'Pass `homeCredentials` for agents at home.',
      })
    if ('variable' in one) {
      const value = one.value ?? process.env[one.variable]
      if (value === undefined)
        throw new SandboxError('invalid_argument', `The variable ${one.variable} is not set.`)
      env[one.variable] = value
    } else auth[one.provider] = one.auth ?? hostAuth()[one.provider]
  }
  return { ...env, ...(Object.keys(auth).length > 0 && { OPENCODE_AUTH_CONTENT: JSON.stringify(auth) }) }
}

function hostAuth(): Record<string, unknown> {
  return JSON.parse(process.env.OPENCODE_AUTH_CONTENT ?? '{}') as Record<string, unknown>
}

async function failed(child: ChildProcess, binary: string): Promise<never> {
  const [cause] = await once(child, 'error')
  throw new SandboxError('command_not_found', `${binary} cannot be started.`, { cause })
}

/** When the process started, or undefined if it has ended. */
async function startOf(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: process.env.PATH },
    })
    const [, state, started] = /^\s*(\S+)\s+(.+?)\s*$/.exec(stdout) ?? []
    return state === undefined || state.startsWith('Z') ? undefined : started
  } catch {
    return undefined
  }
}

/** Ends the server with the programs that it has started, and waits for its end. */
async function end({ pid, started }: SavedServer): Promise<void> {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const until = Date.now() + graceMs
    if ((await startOf(pid)) !== started) return
    try {
      // It leads a process group of its own.
      process.kill(-pid, signal)
    } catch {}
    while (Date.now() < until) {
      if ((await startOf(pid)) !== started) return
      await sleep(50)
    }
  }
}

async function readSaved(file: string): Promise<SavedServer | undefined> {
  try {
    const saved = JSON.parse(await readFile(file, 'utf8')) as SavedServer
    const isWhole = Number.isSafeInteger(saved.pid) && saved.pid > 1 && typeof saved.started === 'string'
    return isWhole ? saved : undefined
  } catch {
    return undefined
  }
}

async function writeSaved(file: string, saved: SavedServer): Promise<void> {
  const next = `${file}.next`
  await writeFile(next, JSON.stringify(saved), { mode: 0o600 })
  await rename(next, file)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
