import { mkdir } from 'node:fs/promises'
import { constants } from 'node:os'
import path from 'node:path'
import { type DaemonConfig, engineOptions, loadConfig, startDaemon } from '@sandkasten/daemon'
import { EngineProvider, locateRunner } from '@sandkasten/engine'
import { SandboxError } from '@sandkasten/sdk'
import { tryIsolation } from '../trial.ts'
import { banner, startedAsJson } from './banner.ts'

export interface UpOptions {
  config?: string
  listen?: string
  dataDir?: string
  isolator?: string
  runtime?: string
  acceptNoIsolation?: boolean
  logFormat?: string
  json?: boolean
  yes?: boolean
}

/** Prepares the machine before `sandkasten up`; used by `npm start`. */
export interface UpSetup {
  /** Runs after the options and the configuration are validated, before an isolator is chosen. */
  prepare(config: DaemonConfig, options: { yes: boolean }): Promise<void>
  /** How users call the command line. */
  readonly command: string
}

export async function up(options: UpOptions, setup?: UpSetup): Promise<number> {
  const loaded = await loadConfig({ file: options.config, overrides: overridesOf(options) })
  await setup?.prepare(loaded, { yes: options.yes ?? false })
  const ending = endOf()
  const config = await Promise.race([isolating(loaded), ending])
  if (typeof config === 'string') return ended(128 + constants.signals[config])
  const daemon = await startDaemon({ config, ownsProcess: true })
  console.log(
    options.json ? startedAsJson(config, daemon) : banner(config, daemon, setup?.command ?? 'sandkasten'),
  )
  await ending
  console.error('sandkasten: the daemon is shutting down; sandboxes keep running.')
  await daemon.close()
  return ended(0)
}

/** Exits soon, even if open handles remain. */
function ended(code: number): number {
  setTimeout(() => process.exit(code), 1_000).unref()
  return code
}

function overridesOf(options: UpOptions): Record<string, unknown> {
  const { listen, dataDir, isolator, runtime, acceptNoIsolation, logFormat } = options
  return {
    listen,
    data_dir: dataDir === undefined ? undefined : path.resolve(dataDir),
    isolator,
    runtime,
    accept_no_isolation: acceptNoIsolation || undefined,
    log_format: logFormat,
  }
}

/**
 * Returns the configuration with a working isolator. Checked at startup instead of at the first session: a daemon
 * that cannot isolate does not start, unless the user has accepted that.
 */
async function isolating(config: DaemonConfig): Promise<DaemonConfig> {
  await using provider = await isolatingEngine(config)
  if (!provider) return { ...config, isolator: 'process' }
  await mkdir(config.data_dir, { recursive: true, mode: 0o700 })
  const tried = await tryIsolation(provider)
  if (tried.ok || tried.untried) return config
  // The cause may be temporary, so the daemon never falls back to no isolation here.
  const { message, hint } = tried.error as { message: string; hint?: string }
  const failed = `Sandboxes cannot be isolated: a trial sandbox failed to start: ${message}`
  throw refused(
    new SandboxError('unavailable', failed, { cause: tried.error, hint }),
    'use --isolator process',
  )
}

/** Undefined: isolation is not possible here, and the user has accepted that. */
async function isolatingEngine(config: DaemonConfig): Promise<EngineProvider | undefined> {
  try {
    const provider = new EngineProvider(engineOptions(config))
    if (provider.decision.isolator === 'process') return notIsolated(provider.decision.reason)
    await locateRunner({
      onBuild: () => console.error('sandkasten: building the runner; this takes a minute and happens once…'),
    })
    const probed = await provider.probe()
    if (probed.ok) return provider
    await provider.close()
    throw new SandboxError('unavailable', `Sandboxes cannot be isolated: ${probed.reason}.`, {
      hint: probed.fix,
    })
  } catch (error) {
    if (!SandboxError.is(error)) throw error
    if (config.accept_no_isolation && config.isolator === 'auto')
      return notIsolated(`${error.message} ${error.hint}`)
    throw refused(error, 'add --accept-no-isolation')
  }
}

function refused(error: SandboxError, way: string): SandboxError {
  const why = `The daemon does not start without isolation. \`sandkasten doctor\` shows what this machine can do. To run code that you trust without isolation, ${way}.`
  return new SandboxError(error.code, error.message, { cause: error, hint: `${error.hint}\n  ${why}` })
}

function notIsolated(reason: string): undefined {
  console.error(`sandkasten: sandboxes are NOT isolated: their commands run as this account. ${reason}`)
}

/**
 * Resolves on the first termination signal. A signal more than a second later exits immediately: under npm, one
 * Ctrl-C arrives twice, from the terminal and from npm.
 */
function endOf(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let firstAt: number | undefined
    const end = (signal: NodeJS.Signals) => {
      if (firstAt !== undefined && performance.now() - firstAt > 1_000) process.exit(130)
      firstAt ??= performance.now()
      resolve(signal)
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end)
  })
}
