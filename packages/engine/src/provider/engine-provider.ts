import { homedir } from 'node:os'
import path from 'node:path'
import { type Capabilities, SandboxError } from '@sandkasten/sdk'
import { localDriver } from '@sandkasten/sdk/local'
import { DriverProvider, type ProviderDriver } from '@sandkasten/sdk/provider'
import type { Isolator } from '../isolators/isolator.ts'
import { accountLayout } from '../isolators/oci/account-groups.ts'
import { OciIsolator, type OciIsolatorOptions } from '../isolators/oci/oci.ts'
import { findProgram } from '../isolators/oci/programs.ts'
import { type EngineCapabilities, engineCapabilities } from './capabilities.ts'
import { EngineDriver } from './driver.ts'
import { locateRunner } from './locate-runner.ts'
import { type EngineDefaults, engineDefaults } from './spec.ts'

export interface EngineProviderOptions {
  /** `auto`: the strongest that works here. `process` has no isolation at all. */
  isolator?: 'auto' | 'oci' | 'process'
  /** Where sandboxes are kept. Default: `/var/lib/sandkasten` for root, else `engine` in `$SANDKASTEN_HOME` or `~/.sandkasten`. */
  root?: string
  defaults?: Partial<EngineDefaults>
  /** Settings of the isolator `oci`; the runner's binary is found by itself. */
  oci?: Partial<OciIsolatorOptions>
  /** For `auto`, when nothing that isolates works: use `process` instead of failing. */
  acceptNoIsolation?: boolean
}

/** Which isolator was chosen, and why the stronger ones were not. */
export interface EngineDecision {
  readonly isolator: 'oci' | 'process'
  readonly reason: string
}

/** The whole contract over an isolator of this machine, embedded: no daemon. */
export class EngineProvider extends DriverProvider<EngineCapabilities> implements AsyncDisposable {
  readonly decision: EngineDecision
  readonly #close: () => Promise<void>

  constructor(options: EngineProviderOptions = {}) {
    const { decision, driver } = choose(options)
    // On `process` the abilities that a runner brings are absent: the data says so, and calling one throws.
    super(driver as unknown as ProviderDriver<EngineCapabilities>)
    this.decision = decision
    this.#close = async () => {
      if (driver instanceof EngineDriver) await driver.close()
    }
  }

  /** Lets go of what this process holds: connections, forwarded ports, what is kept ready for the next sandbox. Sandboxes go on. */
  close(): Promise<void> {
    return this.#close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close()
  }
}

function choose(options: EngineProviderOptions): {
  decision: EngineDecision
  driver: ProviderDriver<Capabilities>
} {
  const { isolator = 'auto' } = options
  const root = path.resolve(options.root ?? defaultRoot())
  if (isolator === 'process') {
    const driver = localDriver({ name: 'engine', root, acceptNoIsolation: true })
    return { decision: { isolator, reason: 'It was asked for. It does not isolate.' }, driver }
  }
  if (isolator !== 'auto' && isolator !== 'oci')
    throw new SandboxError('invalid_argument', `There is no isolator “${String(isolator)}”.`, {
      hint: 'Use auto, oci or process.',
    })
  const missing = ociMissing(options.oci?.runtime)
  if (!missing || isolator === 'oci') {
    const defaults = { ...engineDefaults, ...options.defaults }
    const driver = new EngineDriver({
      root,
      ...lazily(options, root),
      defaults,
      capabilities: capabilitiesHere(),
    })
    const reason = isolator === 'oci' ? 'It was asked for.' : 'An OCI runtime is here, and this is Linux.'
    return { decision: { isolator: 'oci', reason }, driver }
  }
  if (!options.acceptNoIsolation) {
    throw new SandboxError(
      'unsupported',
      `Nothing on this machine can isolate a sandbox: ${missing.reason}`,
      {
        hint: `${missing.fix} Or accept that there is none, with the isolator “process”.`,
      },
    )
  }
  const driver = localDriver({ name: 'engine', root, acceptNoIsolation: true })
  return { decision: { isolator: 'process', reason: `There is no isolation: ${missing.reason}` }, driver }
}

/** Without a freezer, which only root and a delegated control group have, pausing is done by signals. */
function capabilitiesHere(): EngineCapabilities {
  if (process.getuid?.() === 0 || accountLayout().v2) return engineCapabilities
  return { ...engineCapabilities, pause: 'emulated' }
}

/** What can be seen without starting anything; the rest is for `probe`, when a sandbox is first wanted. */
function ociMissing(runtime = 'crun'): { reason: string; fix: string } | undefined {
  if (process.platform !== 'linux')
    return { reason: `this is ${process.platform}, not Linux.`, fix: 'Use a Linux machine.' }
  try {
    findProgram(runtime)
    return undefined
  } catch {
    return { reason: `${runtime} is not installed.`, fix: `Run: apt-get install ${runtime}` }
  }
}

/** Made when it is first needed: finding the runner may mean building it. */
function lazily(
  { oci }: EngineProviderOptions,
  root: string,
): { isolator: () => Promise<Isolator>; closeIsolator: () => Promise<void> } {
  let isolator: Promise<Isolator> | undefined
  const make = () => {
    isolator ??= (async () => {
      const runner = oci?.runner ?? (await locateRunner())
      return new OciIsolator({ imagesFolder: path.join(root, 'images'), ...oci, runner })
    })()
    isolator.catch(() => {
      isolator = undefined
    })
    return isolator
  }
  return { isolator: make, closeIsolator: async () => (await isolator)?.close() }
}

function defaultRoot(): string {
  if (process.env.SANDKASTEN_HOME) return path.join(process.env.SANDKASTEN_HOME, 'engine')
  return process.getuid?.() === 0 ? '/var/lib/sandkasten' : path.join(homedir(), '.sandkasten', 'engine')
}
