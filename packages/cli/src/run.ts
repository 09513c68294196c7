import path from 'node:path'
import { type EngineProvider, engineAt, locateRunner } from '@sandkasten/engine'
import { type Network, SandboxError } from '@sandkasten/sdk'
import { identityOf, isAlive } from '@sandkasten/sdk/internal'
import { type NormalPolicy, normalizeNetwork } from '@sandkasten/sdk/provider'
import { CopyBudget, copyOut, type PlannedOut, planOut } from './copy-out.ts'
import { enginePlace } from './engine-place.ts'
import { reportError, say } from './errors.ts'
import { type Learning, learn } from './learned-policy.ts'
import type { MountOption, OutOption } from './mount-option.ts'
import { type NetworkChoice, type NetworkOptions, networkOf, sdkNetwork } from './network-choice.ts'
import type { PlaceOptions } from './options.ts'
import { endings } from './steer.ts'
import { streamCommand } from './stream.ts'
import { attachTerminal } from './terminal.ts'
import { ownerLabel } from './trial.ts'

export interface RunOptions extends PlaceOptions, NetworkOptions {
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
  user?: 'root'
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
  const network = sdkNetwork(networkOf(given) ?? 'none')
  const outs = planOut(options.out, options.mount).map((out) => ({
    ...out,
    from: path.posix.isAbsolute(out.from) ? out.from : path.posix.join(workdir, out.from),
  }))
  await using provider = engineAt(await enginePlace(options), {
    // `auto` would fall back to another isolator if the requested runtime is missing.
    isolator: options.runtime !== undefined && options.isolator === 'auto' ? 'oci' : options.isolator,
    oci: { runtime: options.runtime },
    prepareNext: false,
    // A policy names variables of this process as its secrets.
    secrets: (name) => process.env[name],
    onWarning: (message) => console.error(`sandkasten: ${message}`),
  })
  if (provider.isolation === 'none')
    console.error('sandkasten: this command is NOT isolated (isolator process).')
  if (provider.decision.isolator === 'oci')
    await locateRunner({ onBuild: () => console.error('sandkasten: building the runner, once…') })
  // The new sandbox does not wait for old ones, and an old one that cannot be removed does not fail the command.
  const removal = removeAbandoned(provider).catch((error: Error) =>
    say(`sandkasten: cannot remove the sandboxes of earlier runs: ${error.message}`),
  )
  await using _removed = { [Symbol.asyncDispose]: () => removal }
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  for (const signal of endings) process.on(signal, leave)
  const sandbox = await provider.create({
    labels: { [ownerLabel]: JSON.stringify(await identityOf(process.pid)) },
    envVars: options.env,
    signal: leaving.signal,
    ...engineOptions(provider, options, network),
  })
  for (const signal of endings) process.off(signal, leave)
  const audited = auditedPolicy(network)
  const learning = audited && learn(provider, sandbox.sandboxId, audited)
  try {
    const code = await (options.tty
      ? attachTerminal(sandbox, command, options)
      : streamCommand(sandbox, command, {
          cwd: options.workdir,
          timeout: options.timeout,
          forwardsInput: options.interactive || !process.stdin.isTTY,
        }))
    if (learning) await printLearned(learning)
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
  const budget = new CopyBudget({ limitBytes: limitMb * 1024 * 1024, signal: leaving.signal })
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

function auditedPolicy(network: NetworkChoice): NormalPolicy | undefined {
  const policy = normalizeNetwork(network)
  return typeof policy === 'object' && policy.audit ? policy : undefined
}

/** A policy that cannot be learned does not change the exit code of the command. */
async function printLearned(learning: Learning): Promise<void> {
  try {
    const policy = JSON.stringify(await learning.policy(), undefined, 2)
    console.error(
      `sandkasten: this policy would have sufficed. Save it, and pass it with --network FILE:\n${policy}`,
    )
  } catch (error) {
    reportError(error)
  }
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
  { image, memory, cpus, mount, runtime, user }: RunOptions,
  network: NetworkChoice,
) {
  if (provider.decision.isolator === 'process') {
    const asked = memory !== undefined || cpus !== undefined || runtime !== undefined || user !== undefined
    const policy = typeof network === 'object'
    if (mount.length > 0 || asked || policy || image !== 'host')
      throw new SandboxError(
        'unsupported',
        'Images, mounts, limits, users, policies and runtimes need isolation.',
        {
          hint: 'Omit them, or use --isolator oci.',
        },
      )
    return {}
  }
  if (provider.decision.isolator === 'docker' && runtime !== undefined)
    throw new SandboxError('unsupported', 'A Docker daemon chooses its own runtime.', {
      hint: 'Omit --runtime, or use --isolator oci.',
    })
  return {
    image,
    resources: { memoryMb: memory, vcpus: cpus },
    ...(user === undefined ? {} : { user }),
    network: network as Network,
    providerOptions: { mounts: mount },
  }
}
