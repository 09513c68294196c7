import { constants } from 'node:os'
import path from 'node:path'
import { type EngineProvider, locateRunner } from '@sandkasten/engine'
import { SandboxError } from '@sandkasten/sdk'
import { identityOf, isAlive } from '@sandkasten/sdk/internal'
import { copyOut, OutBudget, type PlannedOut, planOut } from './copy-out.ts'
import { engineAt, enginePlace } from './engine-place.ts'
import { reportError } from './errors.ts'
import type { MountOption, OutOption } from './mount-option.ts'
import type { PlaceOptions } from './options.ts'
import { codeOf, endings, forwardSignals } from './steer.ts'
import { attachTerminal } from './terminal.ts'
import { ownerLabel } from './trial.ts'

export interface RunOptions extends PlaceOptions {
  image: string
  mount: readonly MountOption[]
  volume: readonly MountOption[]
  out: readonly OutOption[]
  /** In mebibytes. */
  outLimit: number
  env: Readonly<Record<string, string>>
  memory?: number
  cpus?: number
  workdir?: string
  network: 'none' | 'open'
  isolator: 'auto' | 'oci' | 'docker' | 'process'
  runtime?: string
  timeout?: number
  interactive?: boolean
  tty?: boolean
}

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>

/** Runs one command in a new sandbox and removes the sandbox. Returns the command's exit code. */
export async function run(command: readonly string[], given: RunOptions): Promise<number> {
  const options = { ...given, mount: [...given.mount, ...given.volume] }
  const { workdir = '' } = options
  const outs = planOut(options.out, options.mount).map((out) => ({
    ...out,
    from: path.posix.isAbsolute(out.from) ? out.from : path.posix.join(workdir, out.from),
  }))
  await using provider = engineAt(await enginePlace(options), {
    // `auto` would fall back to another isolator if the requested runtime is missing.
    isolator: options.runtime !== undefined && options.isolator === 'auto' ? 'oci' : options.isolator,
    oci: { runtime: options.runtime },
    prepareNext: false,
    onWarning: (message) => console.error(`sandkasten: ${message}`),
  })
  if (provider.isolation === 'none')
    console.error('sandkasten: this command is NOT isolated (isolator process).')
  if (provider.decision.isolator === 'oci')
    await locateRunner({ onBuild: () => console.error('sandkasten: building the runner, once…') })
  await removeAbandoned(provider)
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  for (const signal of endings) process.on(signal, leave)
  const sandbox = await provider.create({
    labels: { [ownerLabel]: JSON.stringify(await identityOf(process.pid)) },
    envVars: options.env,
    signal: leaving.signal,
    ...engineOptions(provider, options),
  })
  for (const signal of endings) process.off(signal, leave)
  try {
    const code = await (options.tty
      ? attachTerminal(sandbox, command, options)
      : stream(sandbox, command, options))
    return await copyResults(sandbox, outs, options.outLimit, code)
  } finally {
    await sandbox.destroy()
  }
}

/**
 * Copies results whether or not the command succeeded. A failed copy determines the exit code only if the command
 * succeeded.
 */
async function copyResults(
  sandbox: Sandbox,
  outs: readonly PlannedOut[],
  limitMb: number,
  code: number,
): Promise<number> {
  if (outs.length === 0) return code
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  for (const signal of endings) process.on(signal, leave)
  const budget = new OutBudget(limitMb * 1024 * 1024, leaving.signal)
  let failed = 0
  try {
    for (const out of outs)
      await copyOut(sandbox.files, out, budget).catch((error) => {
        failed = reportError(error)
      })
  } finally {
    for (const signal of endings) process.off(signal, leave)
  }
  return code === 0 && failed !== 0 ? 125 : code
}

/** Removes sandboxes of earlier runs that were killed before they could clean up. */
async function removeAbandoned(provider: EngineProvider): Promise<void> {
  for (const { sandboxId, labels } of await provider.list()) {
    const owner = labels[ownerLabel]
    if (owner !== undefined && !(await isAlive(JSON.parse(owner)))) await provider.destroy(sandboxId)
  }
}

function engineOptions(
  provider: EngineProvider,
  { image, memory, cpus, mount, network, runtime }: RunOptions,
) {
  if (provider.decision.isolator === 'process') {
    const asked = memory !== undefined || cpus !== undefined || runtime !== undefined
    if (mount.length > 0 || asked || image !== 'host')
      throw new SandboxError('unsupported', 'Images, mounts, limits and runtimes need isolation.', {
        hint: 'Omit them, or use --isolator oci.',
      })
    return {}
  }
  if (provider.decision.isolator === 'docker' && runtime !== undefined)
    throw new SandboxError('unsupported', 'A Docker daemon chooses its own runtime.', {
      hint: 'Omit --runtime, or use --isolator oci.',
    })
  return {
    image,
    resources: { memoryMb: memory, vcpus: cpus },
    providerOptions: { network, mounts: mount },
  }
}

async function stream(
  sandbox: Sandbox,
  [cmd, ...args]: readonly string[],
  options: RunOptions,
): Promise<number> {
  const forwardsInput = options.interactive || !process.stdin.isTTY
  const command = await sandbox.spawn({
    cmd: cmd!,
    args,
    cwd: options.workdir,
    timeoutMs: options.timeout && options.timeout * 1000,
    stdin: forwardsInput ? process.stdin : undefined,
  })
  const stopForwarding = forwardSignals((signal) => command.kill(signal))
  // The failed write reports the error. Without a listener, the same error would end this process before the cleanup.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  try {
    for await (const event of command.output()) {
      if (event.type !== 'exit') {
        await write(event.type === 'stdout' ? process.stdout : process.stderr, event.data)
        continue
      }
      return codeOf(event, options.timeout)
    }
    throw new SandboxError('connection_lost', 'The sandbox ended before the command did.')
  } catch (error) {
    if (isBrokenPipe(error)) return 128 + constants.signals.SIGPIPE
    throw error
  } finally {
    stopForwarding()
    process.stdin.destroy()
  }
}

/** Writes with backpressure. A closed reader (`| head`) silently ends the command. */
function write(stream: NodeJS.WriteStream, data: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()))
  })
}

function isBrokenPipe(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === 'EPIPE'
}
