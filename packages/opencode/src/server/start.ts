import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ProcessCore,
  type SandboxCore,
  type SandboxEndpoint,
  SandboxError,
  supports,
} from '@sandkasten/sdk'
import type { ServerSpec } from '../agents/index.ts'
import { type Inspection, inspect } from '../binary/inspect.ts'
import { programEnvironment, type Settings } from '../bootstrap/settings.ts'
import { headersOf } from './endpoint.ts'
import { checkedVersion, passwordNeeded, portInUse } from './find.ts'
import { FollowedProcess } from './follow.ts'
import { endProcess, execIdOf } from './generations.ts'
import { becomesHealthy } from './ready.ts'

export interface StartOptions {
  readonly server: ServerSpec
  readonly endpoint: SandboxEndpoint
  readonly sandbox: Inspection
  readonly settings: Settings
  readonly binary: string
  /** The number of this start. */
  readonly generation: number
  readonly signal: AbortSignal
}

export interface StartedServer {
  readonly process: ProcessCore
  readonly version: string | undefined
}

/** Starts the server and waits until it answers from here. A failed start leaves no process. */
export async function startServer(handle: SandboxCore, options: StartOptions): Promise<StartedServer> {
  const { settings, generation } = options
  for (const [at, hostname] of settings.hostnames.entries()) {
    const isLast = at === settings.hostnames.length - 1
    const started = await startOn(handle, hostname, isLast, { ...options, generation: generation + at })
    if (started !== undefined) return started
  }
  throw new SandboxError('internal', 'No address to listen on is left.')
}

/** Undefined if the server listens, and cannot be reached at this address of the sandbox. */
async function startOn(
  handle: SandboxCore,
  hostname: string,
  isLast: boolean,
  options: StartOptions,
): Promise<StartedServer | undefined> {
  const { server, endpoint, settings, signal } = options
  const { agent, newPassword, report } = settings
  report({ stage: 'start', message: `Starts ${agent.title} on ${hostname}:${settings.port} of the sandbox.` })
  const process = await spawnServer(handle, hostname, options)
  const followed = new FollowedProcess(process, server.listening)
  const headers = headersOf(endpoint, server.user, newPassword)
  try {
    report({ stage: 'wait', message: `Waits until ${agent.title} answers.` })
    const healthy = becomesHealthy(handle, endpoint.url, headers, followed, settings, signal)
    const unreachable = isLast
      ? []
      : [followed.listening.then(() => sleep(unreachableMs, undefined, { ref: false }))]
    const health = await Promise.race([healthy, ...unreachable])
    if (health) return { process, version: checkedVersion(handle, health.version, settings) }
    healthy.catch(() => {})
    await endProcess(process, signal)
    return undefined
  } catch (error) {
    // A caller in another process has started the server with this number, and its own password. Do not end it.
    if (SandboxError.is(error, 'unauthenticated') && supports(handle, 'reattach'))
      throw passwordNeeded(handle, settings)
    const failure = await explained(handle, error, followed, options)
    await endProcess(process, AbortSignal.timeout(cleanUpMs)).catch(() => {})
    throw failure
  } finally {
    followed.close()
  }
}

async function spawnServer(
  handle: SandboxCore,
  hostname: string,
  { server, sandbox, settings, binary, generation, signal }: StartOptions,
): Promise<ProcessCore> {
  const { agent, port, newPassword } = settings
  // A signal that is given to spawn ends the program also later, so this one is only for the start.
  const start = new AbortController()
  const cancel = () => start.abort(signal.reason)
  signal.addEventListener('abort', cancel)
  try {
    return await handle.spawn({
      cmd: binary,
      args: server.args(port, hostname),
      cwd: sandbox.directory,
      env: {
        ...programEnvironment(settings, sandbox.folder),
        [server.userVariable]: server.user,
        [server.passwordVariable]: newPassword,
      },
      detached: true,
      execId: execIdOf({ agent: agent.name, port, start: sandbox.start }, generation),
      signal: start.signal,
    })
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

/** A program says poorly why it ended, so look at what stops servers: a full disk, and a port in use. */
async function explained(
  handle: SandboxCore,
  error: unknown,
  followed: FollowedProcess,
  { settings, sandbox }: StartOptions,
): Promise<unknown> {
  if (!SandboxError.is(error, 'unavailable', 'timeout')) return error
  const { agent, port, placesEnv: env, redact } = settings
  const signal = AbortSignal.timeout(cleanUpMs)
  try {
    const now = await inspect(handle, { agent, cwd: sandbox.directory, port, env, signal })
    const isOurs = SandboxError.is(error, 'timeout')
    return now.listening && !isOurs
      ? portInUse(handle, settings, `\nLast output:\n${redact(followed.tail)}`)
      : error
  } catch (found) {
    return SandboxError.is(found, 'disk_full', 'permission_denied') ? found : error
  }
}

/** A provider that reaches loopback needs milliseconds. */
const unreachableMs = 6000
const cleanUpMs = 10_000
