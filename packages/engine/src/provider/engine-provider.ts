import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import { type Capabilities, SandboxError, type SandboxInfo, type VolumeAdmin } from '@sandkasten/sdk'
import { needHostRuntime } from '@sandkasten/sdk/internal'
import { localDriver } from '@sandkasten/sdk/local'
import {
  checkKnown,
  checkRuntimes,
  DriverProvider,
  normalizeNetwork,
  type ProviderDriver,
} from '@sandkasten/sdk/provider'
import type { EgressEventsOptions } from '../egress/events.ts'
import type { SecretSource } from '../egress/secrets.ts'
import type { EgressEvent, EgressStats } from '../egress/wire.ts'
import type { HostImageOptions } from '../images/host/hidden.ts'
import { ImageStore, runtimeRecipe, StandIns } from '../images/index.ts'
import { DockerIsolator, type DockerIsolatorOptions } from '../isolators/docker/isolator.ts'
import type { Isolator, ProbeResult, SandboxStats } from '../isolators/isolator.ts'
import { OciIsolator, type OciIsolatorOptions } from '../isolators/oci/isolator.ts'
import { hasProgram } from '../isolators/oci/launch/find-program.ts'
import { isolationOf } from '../isolators/oci/launch/runtime.ts'
import { accountLayout } from '../isolators/oci/limits/account-cgroups.ts'
import { imageRights, privilegesOf } from '../isolators/oci/privileges/privileges.ts'
import type { OpenNetwork } from '../isolators/open-network.ts'
import { dockerCapabilities, type EngineCapabilities, engineCapabilities, without } from './capabilities.ts'
import { decideIsolator, type EngineDecision } from './decision.ts'
import { DockerDisks } from './disks/docker-disks.ts'
import { LayerDisks } from './disks/layer-disks.ts'
import { EngineDriver } from './driver.ts'
import { type EgressSettings, egressOf } from './egress-settings.ts'
import { locateRunner } from './locate-runner.ts'
import { hostImagePrograms, type ProgramImage, RuntimeImages } from './runtime-images.ts'
import { type EngineDefaults, engineDefaults, type FindImage } from './spec.ts'

export interface EngineProviderOptions {
  /** `auto`: the strongest that works here. `process` has no isolation at all. */
  isolator?: 'auto' | 'oci' | 'docker' | 'process'
  /** Pull a missing image from its registry instead of failing. */
  pull?: boolean
  /**
   * The folder of the sandboxes, for one isolator only. Default: `$SANDKASTEN_ENGINE_DIR`, `engine` in
   * `$SANDKASTEN_HOME`, `/var/lib/sandkasten` for root, otherwise `~/.sandkasten/engine`. `docker` uses the folder
   * `docker` in it.
   */
  root?: string
  defaults?: Partial<EngineDefaults>
  /** Images for `create({ runtime })`: `{ node24: 'my-node:1' }`. Others are found by the programs in them. */
  runtimes?: Readonly<Record<string, string>>
  /** Networks that sandboxes with the network `open` may reach besides the public internet. */
  openNetwork?: OpenNetwork
  /**
   * Values for the secrets that network policies name: an object, or a function that is asked when a sandbox needs a
   * value. They stay in memory, here and in the gateway.
   */
  secrets?: SecretSource
  /** Settings of the gateway for network policies; its binary is found by itself. */
  egress?: EgressSettings
  /** The parts of this machine's `/usr` that the image `host` hides. */
  hostImage?: HostImageOptions
  /** Settings of the isolator `oci`; the runner's binary is found by itself. */
  oci?: Partial<OciIsolatorOptions>
  /** Settings of the isolator `docker`; the runner's binary is found by itself. */
  docker?: Partial<DockerIsolatorOptions>
  /** Prepare the next start in the background. Default true; a program that starts one sandbox is faster without. */
  prepareNext?: boolean
  /** Called with a warning if an option has a weaker effect than requested. Default: `process.emitWarning`. */
  onWarning?: (message: string) => void
  /** For `auto`: if no isolator works, use `process` instead of failing. */
  acceptNoIsolation?: boolean
}

const known: ReadonlyArray<keyof EngineProviderOptions> = [
  'isolator',
  'pull',
  'root',
  'defaults',
  'runtimes',
  'openNetwork',
  'secrets',
  'egress',
  'hostImage',
  'oci',
  'docker',
  'prepareNext',
  'onWarning',
  'acceptNoIsolation',
]

/** Implements the provider contract with an isolator of this machine, in this process and without a daemon. */
export class EngineProvider extends DriverProvider<EngineCapabilities> implements AsyncDisposable {
  readonly decision: EngineDecision
  /** Folders that outlive sandboxes, to be mounted by `providerOptions.volumes`. */
  readonly volumes: VolumeAdmin
  /** Opens a byte stream to a port of a sandbox. Absent without isolation: there a sandbox's ports are the machine's. */
  readonly dial: ((sandboxId: string, port: number) => Promise<Duplex>) | undefined
  /** Absent on `process`. */
  readonly #driver: EngineDriver | undefined
  readonly #folders: Pick<EngineDriver, 'handOver' | 'close'>

  constructor(options: EngineProviderOptions = {}) {
    checkKnown(options, known, 'EngineProvider')
    checkKnown(options.defaults ?? {}, [...Object.keys(engineDefaults), 'diskMb'], '`defaults`')
    const decision = decideIsolator(options)
    const driver: ProviderDriver<Capabilities> = driverOf(decision.isolator, options)
    // On `process` the capabilities of the runner are absent, and calling one throws.
    super(driver as unknown as ProviderDriver<EngineCapabilities>)
    this.decision = decision
    this.#folders = driver as unknown as EngineDriver
    const engine = driver instanceof EngineDriver ? driver : undefined
    this.#driver = engine
    this.dial = engine && ((sandboxId, port) => engine.dial(sandboxId, port))
    this.volumes = volumesOf(decision, engine)
  }

  /** Whether the isolator works on this machine. If not, the result has the reason and the fix. */
  async probe(): Promise<ProbeResult> {
    return this.#driver?.probe() ?? { ok: true, detail: this.decision.reason }
  }

  /** Whether `resources.diskMb` and `limitMb` of volumes work here: on `oci` as root, with loop devices and e2fsprogs. */
  get limitsDisks(): boolean {
    return (
      this.decision.isolator === 'oci' &&
      process.getuid?.() === 0 &&
      existsSync('/dev/loop-control') &&
      hasProgram('mkfs.ext4')
    )
  }

  /** The current resource usage of a sandbox. A value that this machine does not count is undefined. */
  async stats(sandboxId: string): Promise<SandboxStats> {
    return this.#isolated('Statistics').stats(sandboxId)
  }

  /**
   * Calls the listener when a sandbox that this process started, or watches, ends by itself. Never called on
   * `process`.
   */
  onEnded(listener: (info: SandboxInfo) => void): void {
    if (this.#driver) this.#driver.onEnded = listener
  }

  /** Makes the listener of `onEnded` learn of the end of a sandbox that another process started. */
  async watch(sandboxId: string): Promise<void> {
    await this.#driver?.watch(sandboxId)
  }

  /** Gives an unused sandbox from a pool the labels, environment and age of a new one. */
  handOver(
    sandboxId: string,
    to: { labels: Readonly<Record<string, string>>; envVars: Readonly<Record<string, string>> },
  ): Promise<void> {
    return this.#folders.handOver(sandboxId, to)
  }

  /**
   * The image that `create({ runtime })` uses. Throws `unsupported` with the runtimes that exist. With `among`, only
   * these images count.
   */
  async imageForRuntime(runtime: string, among?: readonly string[]): Promise<string> {
    if (this.#driver) return this.#driver.runtimes.imageFor(runtime, among)
    await needHostRuntime(this.name, runtime, { path: process.env.PATH ?? '' })
    return 'host'
  }

  /** Closes connections, forwarded ports and everything that is ready for the next sandbox. Sandboxes keep running. */
  async close(): Promise<void> {
    await this.#folders.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /**
   * Cleans up after processes that were killed: half-made sandboxes, id ranges, unused layers. Safe while other
   * processes use the same root. Returns the ids of removed sandboxes.
   */
  async sweep(): Promise<string[]> {
    return (await this.#driver?.sweep()) ?? []
  }

  /** The decisions about a sandbox with a network policy, oldest first. With `follow`, until the signal aborts. */
  async *egressEvents(sandboxId: string, options: EgressEventsOptions = {}): AsyncGenerator<EgressEvent> {
    yield* await this.#isolated('Network policies').egressEvents(sandboxId, options)
  }

  /** What a sandbox with a network policy has sent and received since its start. */
  async egressStats(sandboxId: string): Promise<EgressStats> {
    return this.#isolated('Network policies').egressStats(sandboxId)
  }

  /** Asks for all secrets of the sandboxes that this process uses again. New connections have the new values. */
  async refreshSecrets(): Promise<void> {
    await this.#driver?.refreshSecrets()
  }

  #isolated(what: string): EngineDriver {
    if (this.#driver) return this.#driver
    throw new SandboxError('unsupported', `${what} are not available without isolation.`, {
      hint: 'Use the isolator oci.',
    })
  }

  /** Resolves when no work runs in the background, such as merging deep stacks of layers. */
  async idle(): Promise<void> {
    await this.#driver?.idle()
  }
}

function volumesOf({ isolator }: EngineDecision, driver: EngineDriver | undefined): VolumeAdmin {
  const volumes = async () => {
    const volumes = await driver?.volumes()
    if (volumes) return volumes
    throw new SandboxError('unsupported', `The isolator “${isolator}” has no volumes.`, {
      hint: 'Use the isolator “oci”.',
    })
  }
  return {
    create: async (name, options) => (await volumes()).create(name, options),
    get: async (name, options) => (await volumes()).get(name, options),
    list: async (options) => (await volumes()).list(options),
    remove: async (name, options) => (await volumes()).remove(name, options),
  }
}

function driverOf(isolator: EngineDecision['isolator'], options: EngineProviderOptions) {
  if (isolator === 'docker') return dockerDriver(options)
  const root = path.resolve(options.root ?? defaultRoot())
  return isolator === 'oci'
    ? ociDriver(root, options)
    : localDriver({ name: 'engine', root, acceptNoIsolation: true })
}

/** Without a freezer, which only root and a delegated control group have, pausing is done by signals. */
function capabilitiesHere(): EngineCapabilities {
  const freezes = process.getuid?.() === 0 || accountLayout().v2
  return freezes ? engineCapabilities : { ...engineCapabilities, pause: 'emulated' }
}

/** A container's network can only be entered by root, on the daemon's machine. */
function dockerCapabilitiesHere(docker: Partial<DockerIsolatorOptions> = {}): EngineCapabilities {
  const all = dockerCapabilities(docker)
  return process.getuid?.() === 0 && !docker.bridge ? all : without(all, 'egress')
}

function ociDriver(root: string, options: EngineProviderOptions): EngineDriver {
  const defaults = defaultsOf(options)
  const images = imageStore({ ...options, root })
  const findImage = finder(images, options)
  const rights = process.getuid?.() === 0 ? undefined : privilegesOf({})
  const { runner, ...isolator } = lazily(options.oci, async (runner) => {
    const { openNetwork, hostImage, prepareNext, oci } = options
    return new OciIsolator({
      imagesFolder: path.join(root, 'images'),
      prepareNext,
      openNetwork,
      hostImage,
      ...oci,
      runner,
    })
  })
  const { prepareNext = true } = options
  return new EngineDriver({
    root,
    ...isolator,
    disks: (sandboxes) => new LayerDisks(sandboxes, { runner, rights, defaults, findImage, prepareNext }),
    defaults,
    runtimes: runtimeImages('oci', options, defaults, async () => images.programs()),
    capabilities: capabilitiesHere(),
    egress: egressOf(options, options.oci?.runFolder),
    hasRootUser: process.getuid?.() === 0,
    isolation: isolationOf(options.oci ?? {}),
  })
}

function dockerDriver(options: EngineProviderOptions): EngineDriver {
  const root = options.root === undefined ? path.join(defaultRoot(), 'docker') : path.resolve(options.root)
  const defaults = defaultsOf(options)
  const standIns = new StandIns(options.onWarning)
  const { runner: _, ...isolator } = lazily(options.docker, async (runner) => {
    const { pull = false, openNetwork, hostImage, docker } = options
    return new DockerIsolator({ stateFolder: root, pull, openNetwork, hostImage, ...docker, runner })
  })
  return new EngineDriver({
    root,
    ...isolator,
    disks: (sandboxes) => new DockerDisks(sandboxes, { defaults, standIns }),
    defaults,
    runtimes: runtimeImages(
      'docker',
      options,
      defaults,
      async () => (await isolator.isolator()).programs?.() ?? [],
    ),
    capabilities: dockerCapabilitiesHere(options.docker),
    egress: egressOf(options, options.docker?.runFolder),
  })
}

function defaultsOf({ defaults = {} }: EngineProviderOptions): EngineDefaults {
  const { network = engineDefaults.network, ...rest } = defaults
  return { ...engineDefaults, ...rest, network: normalizeNetwork(network) }
}

function runtimeImages(
  isolator: 'oci' | 'docker',
  { runtimes, hostImage = {} }: EngineProviderOptions,
  { image: defaultImage }: EngineDefaults,
  stored: () => Promise<readonly ProgramImage[]>,
): RuntimeImages {
  // A Docker daemon may be on another machine. Its user says by the default image that it sees this one.
  const sees = isolator === 'oci' || defaultImage === 'host'
  const images = async () => [...(await stored()), ...(sees ? [await hostImagePrograms(hostImage)] : [])]
  return new RuntimeImages({ named: checkRuntimes(runtimes, 'engine'), defaultImage, images })
}

/** Created on first use, because finding the runner may require a build. A failure is not cached. */
function lazily(given: { runner?: string } | undefined, make: (runner: string) => Promise<Isolator>) {
  const runner = once(async () => given?.runner ?? (await locateRunner()))
  const isolator = once(async () => make(await runner.get()))
  return {
    runner: runner.get,
    isolator: isolator.get,
    closeIsolator: async () => (await isolator.made())?.close(),
  }
}

function once<T>(make: () => Promise<T>): { get(): Promise<T>; made(): Promise<T> | undefined } {
  let made: Promise<T> | undefined
  return {
    made: () => made,
    get: () => {
      made ??= make()
      made.catch(() => {
        made = undefined
      })
      return made
    },
  }
}

/** The images of a root, as the provider over the same root uses them. */
export function imageStore(options: Pick<EngineProviderOptions, 'root' | 'oci'> = {}): ImageStore {
  const { imagesFolder, runner } = options.oci ?? {}
  return new ImageStore({
    root: path.resolve(options.root ?? defaultRoot()),
    imagesFolder,
    runner: async () => runner ?? locateRunner(),
    rights: process.getuid?.() === 0 ? undefined : imageRights(),
  })
}

function finder(images: ImageStore, { pull = false, onWarning }: EngineProviderOptions): FindImage {
  const standIns = new StandIns(onWarning)
  return async (name) => {
    const recipe = runtimeRecipe(name)
    if (recipe !== undefined && !images.find(name)) {
      if (images.find(recipe)) return images.imageLayers(recipe)
      standIns.tell(name, `sandkasten image build ${recipe}`)
      return 'host'
    }
    // An invalid name fails here, not at a registry.
    if (pull && !images.find(name)) await images.pull(name)
    return images.imageLayers(name)
  }
}

/**
 * The root for these options below one common folder. Each isolator has a root of its own, so the daemon and the
 * command line find the same sandboxes and images.
 */
export function rootBelow(folder: string, options: Omit<EngineProviderOptions, 'root'>): string {
  const { isolator } = decideIsolator(options)
  return isolator === 'docker' ? path.join(folder, 'docker') : folder
}

function defaultRoot(): string {
  if (process.env.SANDKASTEN_ENGINE_DIR) return path.resolve(process.env.SANDKASTEN_ENGINE_DIR)
  if (process.env.SANDKASTEN_HOME) return path.join(process.env.SANDKASTEN_HOME, 'engine')
  return process.getuid?.() === 0 ? '/var/lib/sandkasten' : path.join(homedir(), '.sandkasten', 'engine')
}
