import { homedir } from 'node:os'
import path from 'node:path'
import { type Capabilities, SandboxError } from '@sandkasten/sdk'
import { localDriver } from '@sandkasten/sdk/local'
import { DriverProvider, type ProviderDriver } from '@sandkasten/sdk/provider'
import { Daemon } from '../isolators/docker/daemon.ts'
import { DockerIsolator, type DockerIsolatorOptions } from '../isolators/docker/docker.ts'
import { OciIsolator, type OciIsolatorOptions } from '../isolators/oci/oci.ts'
import { findProgram } from '../isolators/oci/probe.ts'
import { dockerCapabilities, type EngineCapabilities, engineCapabilities } from './capabilities.ts'
import { DockerDriver } from './docker-driver.ts'
import { EngineDriver } from './driver.ts'
import { locateRunner } from './locate-runner.ts'
import { type EngineDefaults, engineDefaults } from './spec.ts'

export interface EngineProviderOptions {
  /** `auto`: the strongest that works here. `process` has no isolation at all. */
  isolator?: 'auto' | 'oci' | 'docker' | 'process'
  /**
   * Where sandboxes are kept; for one isolator only. Default: `/var/lib/sandkasten` for root, else `engine` in `$SANDKASTEN_HOME` or `~/.sandkasten`;
   * for `docker` the folder `docker` in there.
   */
  root?: string
  defaults?: Partial<EngineDefaults>
  /** Settings of the isolator `oci`; the runner's binary is found by itself. */
  oci?: Partial<OciIsolatorOptions>
  /** Settings of the isolator `docker`; the runner's binary is found by itself. */
  docker?: Partial<DockerIsolatorOptions>
  /** For `auto`, when nothing that isolates works: use `process` instead of failing. */
  acceptNoIsolation?: boolean
}

/** Which isolator was chosen, and why the stronger ones were not. */
export interface EngineDecision {
  readonly isolator: 'oci' | 'docker' | 'process'
  readonly reason: string
}

/** The whole contract over an isolator of this machine, embedded: no daemon. */
export class EngineProvider extends DriverProvider<EngineCapabilities> {
  readonly decision: EngineDecision

  constructor(options: EngineProviderOptions = {}) {
    const { decision, driver } = choose(options)
    // On `process` the abilities that a runner brings are absent: the data says so, and calling one throws.
    super(driver as unknown as ProviderDriver<EngineCapabilities>)
    this.decision = decision
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
  if (isolator !== 'auto' && isolator !== 'oci' && isolator !== 'docker')
    throw new SandboxError('invalid_argument', `There is no isolator “${String(isolator)}”.`, {
      hint: 'Use auto, oci, docker or process.',
    })
  if (isolator === 'docker')
    return { decision: { isolator, reason: 'It was asked for.' }, driver: dockerDriver(options) }
  const missing = ociMissing(options.oci?.runtime)
  if (!missing || isolator === 'oci') {
    const defaults = { ...engineDefaults, ...options.defaults }
    const driver = new EngineDriver({
      root,
      isolator: once(async () => {
        const runner = options.oci?.runner ?? (await locateRunner())
        return new OciIsolator({ imagesFolder: path.join(root, 'images'), ...options.oci, runner })
      }),
      defaults,
      capabilities: engineCapabilities,
    })
    const reason =
      isolator === 'oci' ? 'It was asked for.' : 'An OCI runtime is here, and this is root on Linux.'
    return { decision: { isolator: 'oci', reason }, driver }
  }
  const daemon = new Daemon(options.docker)
  if (daemon.seemsThere) {
    const reason = `A daemon of Docker’s kind is on ${daemon.where}; oci would be stronger, but ${missing.reason}`
    return { decision: { isolator: 'docker', reason }, driver: dockerDriver(options) }
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

/** What can be seen without starting anything; the rest is for `probe`, when a sandbox is first wanted. */
function ociMissing(runtime = 'crun'): { reason: string; fix: string } | undefined {
  if (process.platform !== 'linux')
    return { reason: `this is ${process.platform}, not Linux.`, fix: 'Use a Linux machine.' }
  if (process.getuid?.() !== 0) return { reason: 'this process is not root.', fix: 'Run it as root.' }
  try {
    findProgram(runtime)
    return undefined
  } catch {
    return { reason: `${runtime} is not installed.`, fix: `Run: apt-get install ${runtime}` }
  }
}

function dockerDriver(options: EngineProviderOptions): ProviderDriver<Capabilities> {
  const root = options.root === undefined ? path.join(defaultRoot(), 'docker') : path.resolve(options.root)
  return new DockerDriver({
    root,
    isolator: once(async () => {
      const runner = options.docker?.runner ?? (await locateRunner())
      return new DockerIsolator({ stateFolder: root, ...options.docker, runner })
    }),
    defaults: { ...engineDefaults, ...options.defaults },
    // With ids for each sandbox Podman cannot copy a disk.
    capabilities: options.docker?.userns === undefined ? dockerCapabilities : engineCapabilities,
  })
}

/** Made when it is first needed: finding the runner may mean building it. A failure is not kept. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    made.catch(() => {
      made = undefined
    })
    return made
  }
}

function defaultRoot(): string {
  if (process.env.SANDKASTEN_HOME) return path.join(process.env.SANDKASTEN_HOME, 'engine')
  return process.getuid?.() === 0 ? '/var/lib/sandkasten' : path.join(homedir(), '.sandkasten', 'engine')
}
