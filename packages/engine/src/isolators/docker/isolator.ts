import { existsSync, mkdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { guarded } from '@sandkasten/sdk/internal'
import type { Programs } from '@sandkasten/sdk/provider'
import type { Container, ContainerInspectInfo } from 'dockerode'
import { type HostImageOptions, hiddenInHost } from '../../images/host/hidden.ts'
import { checkSpec } from '../check-spec.ts'
import {
  gatewaySocket,
  type IsolatedSandbox,
  type Isolator,
  type IsolatorSpec,
  type ProbeResult,
  type SandboxEnd,
  type SandboxPlace,
} from '../isolator.ts'
import { checkedAllow, type OpenNetwork } from '../open-network.ts'
import { containerConfig, RESOLV_CONF, type Reach, SANDBOX_USER } from './config.ts'
import { killContainer, listOurs, lives, removeContainer } from './daemon/containers.ts'
import { Daemon, type DaemonAddress, type DaemonFacts } from './daemon/daemon.ts'
import { statusOf } from './daemon/errors.ts'
import { Images } from './daemon/images.ts'
import { isOurs, LABEL, labelsFor, ownerOf } from './daemon/labels.ts'
import { EndWatch } from './launch/end-watch.ts'
import { forgetHolds, holdsOf } from './launch/hold-notes.ts'
import { endOf, forgetKill } from './launch/last-end.ts'
import { copyRunner, makeFolders, nameAccount, probeShared, seccompFor } from './launch/prepare-container.ts'
import { BridgeConnection, type RunnerConnection, SocketConnection } from './launch/runner-connection.ts'
import { trustAuthority } from './launch/trust-container.ts'
import { groupsOf, weaknessOf } from './limits/cgroups.ts'
import { limitsOfThisMachine } from './limits/rlimits.ts'
import { closeNetwork } from './network/close-network.ts'
import { holdNetwork, notedGateway, noteGateway } from './network/egress-holder.ts'
import { probeDaemon, weaknesses } from './probe.ts'
import { DockerSandbox } from './sandbox.ts'

export interface DockerIsolatorOptions extends DaemonAddress {
  /** The runner's binary, for the daemon's machine. */
  readonly runner: string
  /** A persistent folder for the name of this engine, which labels its objects, and for the image `host`. */
  readonly stateFolder: string
  /** For sockets. The path must be short, and need not survive a reboot. */
  readonly runFolder?: string
  /** Pull an image that the daemon does not have. Default false. */
  readonly pull?: boolean
  /**
   * Reach the runner over the daemon's API, not through a shared folder. Chosen automatically if the daemon does not
   * see our disk.
   */
  readonly bridge?: boolean
  /** The daemon's network for sandboxes with the network open. */
  readonly network?: string
  /** The parts of this machine that the image `host` hides. */
  readonly hostImage?: HostImageOptions
  /** Networks that sandboxes with the network `open` may reach. Enforced if the daemon is on this machine and we are root. */
  readonly openNetwork?: OpenNetwork
  /**
   * For Podman: `auto:size=65536` gives each sandbox its own ids, from the range of the user `containers` in
   * /etc/subuid.
   */
  readonly userns?: string
  /** A file on the daemon's machine with our seccomp profile. Needed if Podman does not see our disk. */
  readonly seccompProfile?: string
  /** A runtime that is configured in the daemon. */
  readonly runtime?: string
  readonly cgroupParent?: string
  readonly readyTimeoutMs?: number
}

/** A probe takes milliseconds, so an older one is a leftover. */
const PROBE_SECONDS = 60

/**
 * Sandboxes as containers of a Docker daemon or of Podman. The container is the sandbox: it is kept while the sandbox
 * is stopped, its writable layer is the disk, and the daemon knows how it ended. The only state here is a connection.
 *
 * Touches only containers and images with our labels and our own root.
 */
export class DockerIsolator implements Isolator {
  readonly name = 'docker'
  readonly isolation = 'container'
  private readonly options: DockerIsolatorOptions & { runFolder: string }
  private readonly daemon: Daemon
  private readonly watch: EndWatch
  private shared?: Promise<boolean>
  private made?: { owner: string; images: Images }

  constructor(options: DockerIsolatorOptions) {
    checkedAllow(options.openNetwork?.allow ?? [])
    hiddenInHost(options.hostImage ?? {})
    this.options = { ...options, runFolder: options.runFolder ?? '/run/sandkasten' }
    this.daemon = new Daemon(options)
    this.watch = new EndWatch(this.daemon, () => this.own().owner)
  }

  probe(): Promise<ProbeResult> {
    return probeDaemon(this.daemon, this.options.runner)
  }

  /** The restrictions that are missing with this daemon, in sentences for users. */
  async weaker(): Promise<readonly string[]> {
    const facts = await this.daemon.facts()
    return weaknesses(facts, { ...this.options, closesNetworks: !this.options.bridge && this.maySee(facts) })
  }

  async start(spec: IsolatorSpec): Promise<IsolatedSandbox> {
    checkSpec(spec)
    refuseLayers(spec)
    await guarded('cannot create the sandbox’s folder', async () => {
      mkdirSync(spec.folder, { recursive: true, mode: 0o700 })
    })
    const facts = await this.daemon.facts()
    const known = await this.find(spec)
    if (known && lives(known.info))
      throw new SandboxError('conflict', `sandbox ${spec.sandboxId} runs already`, {
        sandboxId: spec.sandboxId,
        hint: 'Use attach().',
      })
    const container = known?.container ?? (await this.create(spec, facts))
    try {
      forgetKill(spec)
      forgetHolds(spec)
      return await this.run(spec, facts, container)
    } catch (error) {
      // A container that existed before stays, but must not run.
      if (known) await killContainer(container).catch(() => {})
      else
        await this.remove(spec).catch((cause: Error) => {
          throw new SandboxError(
            'internal',
            `${(error as Error).message} The cleanup failed too: ${cause.message}`,
            { cause: error },
          )
        })
      throw error
    }
  }

  async attach(place: SandboxPlace): Promise<IsolatedSandbox | undefined> {
    const found = await this.find(place)
    if (!found || !lives(found.info)) return undefined
    const gateway = notedGateway(place)
    if (gateway) await holdNetwork(this.options.runner, found.info, gateway)
    const sandbox = this.sandboxOf(place, found, await this.daemon.facts())
    if ((await holdsOf(place)) === 'lost') {
      forgetHolds(place)
      await sandbox.thaw()
    }
    return sandbox
  }

  async lastEnd(place: SandboxPlace): Promise<SandboxEnd | undefined> {
    const found = await this.find(place)
    return found && endOf(found.info, place, (await this.daemon.facts()).kind)
  }

  async remove(place: SandboxPlace): Promise<boolean> {
    const found = await this.find(place)
    if (found) await this.daemon.call('Removing it', () => removeContainer(found.container))
    new SocketConnection(place, this.options.runFolder).remove()
    forgetKill(place)
    forgetHolds(place)
    noteGateway(place, undefined)
    try {
      rmdirSync(place.folder)
    } catch {
      // Already gone, or the engine keeps files of its own there and removes it later.
    }
    return found !== undefined
  }

  /** This isolator prepares nothing for the next start. */
  async close(): Promise<void> {}

  /** Cleans up after killed processes: containers whose folders below this one are gone, and probes. */
  async sweep(below: string): Promise<void> {
    await this.daemon.call('Clearing away', async (docker) => {
      for (const { Id, Labels } of await listOurs(docker, this.own().owner, 'sandbox')) {
        const folder = Labels[LABEL.folder]
        if (folder?.startsWith(`${below}/`) && !existsSync(folder)) {
          await removeContainer(docker.getContainer(Id))
          new SocketConnection({ sandboxId: Labels[LABEL.sandbox]!, folder }, this.options.runFolder).remove()
        }
      }
      for (const { Id, Created } of await listOurs(docker, this.own().owner, 'probe'))
        if (Date.now() / 1000 - Created > PROBE_SECONDS) await removeContainer(docker.getContainer(Id))
    })
  }

  async snapshot(place: SandboxPlace, snapshotId: string): Promise<{ sizeBytes?: number }> {
    if (this.userns(await this.daemon.facts()) !== undefined)
      throw new SandboxError(
        'unsupported',
        'Podman changes the owners of files when it copies a disk with its own id range',
        {
          sandboxId: place.sandboxId,
          hint: 'To use snapshots and forks, omit docker.userns.',
        },
      )
    const found = await this.find(place)
    if (!found) throw new SandboxError('not_found', `sandbox ${place.sandboxId} has no container`)
    const sizeBytes = await this.own().images.commit(found.container, place.sandboxId, snapshotId)
    return { sizeBytes }
  }

  hasImage(reference: string): Promise<boolean> {
    return this.own().images.has(reference)
  }

  programs(): Promise<Array<{ image: string; programs: Programs }>> {
    return this.own().images.programs()
  }

  removeSnapshot(snapshotId: string): Promise<'removed' | 'absent' | 'in-use'> {
    return this.own().images.removeSnapshot(snapshotId)
  }

  private async create(spec: IsolatorSpec, facts: DaemonFacts): Promise<Container> {
    const { owner, images } = this.own()
    const image = await images.resolve(spec.image)
    const shared = await this.isShared(image.name, facts)
    if (!shared && (image.binds.length > 0 || spec.mounts.length > 0))
      throw new SandboxError('unsupported', 'the daemon does not see this machine’s disk', {
        sandboxId: spec.sandboxId,
        hint: 'Use an image of the daemon instead of `host`, and omit providerOptions.mounts.',
      })
    const connection = new SocketConnection(spec, this.options.runFolder)
    // The daemon checks that the folder exists when it creates the container.
    const mounted = shared && !this.options.bridge
    const gateway = gatewaySocket(spec)
    if (gateway && !mounted) throw noHolder(spec)
    if (mounted) connection.prepare(facts.rootId ?? 0)
    const reach: Reach = mounted
      ? {
          how: 'socket',
          runner: this.options.runner,
          folder: connection.folder,
          chown: this.userns(facts) !== undefined,
          resolvConf: gateway && connection.resolvConf,
        }
      : { how: 'bridge' }
    const { cgroupParent, runtime } = this.options
    const userns = this.userns(facts)
    const config = containerConfig({
      spec,
      image: image.name,
      labels: labelsFor(owner, 'sandbox', {
        [LABEL.sandbox]: spec.sandboxId,
        [LABEL.folder]: spec.folder,
        [LABEL.reach]: reach.how,
      }),
      reach,
      binds: image.binds,
      hidden: image.hidden,
      seccomp: await seccompFor(facts, { ...this.options, shared }),
      kind: facts.kind,
      network: this.options.network ?? 'bridge',
      userns,
      cgroupParent,
      runtime,
      ...(shared ? limitsOfThisMachine(facts) : {}),
    })
    let container: Container | undefined
    try {
      container = await this.daemon.call(
        'Creating the container',
        (docker) => docker.createContainer({ name: this.containerName(spec), ...config }),
        { sandboxId: spec.sandboxId, image: image.name },
      )
      const made = container
      const { account, authority } = spec
      if (authority !== undefined)
        await this.daemon.call('Adding its certificate authority', () =>
          trustAuthority(made, authority, { ownPrograms: image.binds.length === 0 }),
        )
      if (account !== undefined)
        await this.daemon.call('Naming the account', () => nameAccount(made, account))
      if (!image.prepared || account !== undefined)
        await this.daemon.call('Creating its folders', () => makeFolders(made, spec.workdir, SANDBOX_USER))
    } catch (error) {
      await container?.remove({ force: true, v: true }).catch(() => {})
      // If a container of ours has that name, another process is starting the sandbox: keep its folder.
      if (container || !(await this.find(spec))) connection.remove()
      throw error
    }
    return container
  }

  private async run(spec: IsolatorSpec, facts: DaemonFacts, container: Container): Promise<DockerSandbox> {
    const { sandboxId } = spec
    const { Config, Mounts } = await this.inspect(container)
    const reach = Config.Labels[LABEL.reach]
    const gateway = gatewaySocket(spec)
    if (gateway && reach !== 'socket') throw noHolder(spec)
    if (gateway && !Mounts.some(({ Destination }) => Destination === RESOLV_CONF)) throw otherNetwork(spec)
    noteGateway(spec, gateway)
    const connection = this.connectionTo(spec, container, reach)
    if (connection instanceof SocketConnection) connection.prepare(facts.rootId ?? 0)
    // Copied on every start: the sandbox's root can change the copy inside, and ours may be newer.
    else await this.daemon.call('Copying the runner', () => copyRunner(container, this.options.runner))
    await this.daemon.call('Starting the container', () => container.start(), { sandboxId })
    const info = await this.inspect(container)
    const sandbox = this.sandboxOf(spec, { container, info }, facts)
    if (spec.network === 'open' && reach === 'socket')
      await closeNetwork(this.options.runner, info, this.options.openNetwork ?? {})
    if (gateway) await holdNetwork(this.options.runner, info, gateway)
    await this.untilReady(sandbox, connection)
    const weakness = reach === 'socket' ? weaknessOf(info.State.Pid, info.Id) : undefined
    if (weakness !== undefined)
      throw new SandboxError('unsupported', `the daemon ignored a restriction: ${weakness}`, {
        sandboxId,
        hint: 'Check whether the daemon is configured to ignore seccomp profiles or no-new-privileges.',
      })
    return sandbox
  }

  /** Waits until the runner is ready. Fails if the container ends or the timeout expires. */
  private async untilReady(sandbox: DockerSandbox, connection: RunnerConnection): Promise<void> {
    const { sandboxId } = sandbox
    const failed = (why: string, cause?: unknown) =>
      new SandboxError('unavailable', `cannot start the sandbox: ${why}`, { sandboxId, cause })
    const stop = new AbortController()
    const timeout = setTimeout(
      () => stop.abort(failed('the runner did not answer in time')),
      this.options.readyTimeoutMs ?? 60_000,
    )
    void sandbox.ended.then(({ errors, exitCode, signal }) =>
      stop.abort(
        failed(errors || `the runner exited (${signal === undefined ? exitCode : `signal ${signal}`})`),
      ),
    )
    try {
      await connection.ready(stop.signal)
    } catch (cause) {
      throw stop.signal.aborted ? stop.signal.reason : failed((cause as Error).message, cause)
    } finally {
      clearTimeout(timeout)
    }
  }

  private sandboxOf(
    place: SandboxPlace,
    found: { container: Container; info: ContainerInspectInfo },
    facts: DaemonFacts,
  ): DockerSandbox {
    const { container, info } = found
    const reach = info.Config.Labels[LABEL.reach]
    return new DockerSandbox({
      place,
      container,
      info,
      connection: this.connectionTo(place, container, reach),
      where: this.daemon.where,
      kind: facts.kind,
      watch: this.watch,
      groups: reach === 'socket' ? groupsOf(info.State.Pid, info.Id) : undefined,
    })
  }

  private connectionTo(
    place: SandboxPlace,
    container: Container,
    reach: string | undefined,
  ): RunnerConnection {
    return reach === 'socket'
      ? new SocketConnection(place, this.options.runFolder)
      : new BridgeConnection(container)
  }

  /** The sandbox's container, if it exists and is ours. */
  private async find(
    place: SandboxPlace,
  ): Promise<{ container: Container; info: ContainerInspectInfo } | undefined> {
    return this.daemon.call(
      'Looking for the container',
      async (docker) => {
        const named = docker.getContainer(this.containerName(place))
        const info = await named.inspect().catch((cause) => {
          if (statusOf(cause) !== 404) throw cause
        })
        if (!info || !isOurs(info.Config.Labels, this.own().owner, 'sandbox')) return undefined
        if (info.Config.Labels[LABEL.sandbox] !== place.sandboxId) return undefined
        // Use the id from now on, because a name can be reused.
        return { container: docker.getContainer(info.Id), info }
      },
      { sandboxId: place.sandboxId },
    )
  }

  private inspect(container: Container): Promise<ContainerInspectInfo> {
    return this.daemon.call('Inspecting the container', () => container.inspect())
  }

  private containerName({ sandboxId }: SandboxPlace): string {
    if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(sandboxId))
      throw new SandboxError(
        'invalid_argument',
        `sandboxId: '${sandboxId}' is not 1 to 64 letters, digits, '-', '_' or '.'`,
      )
    return `sandkasten-${this.own().owner}-${sandboxId}`
  }

  private own(): { owner: string; images: Images } {
    if (!this.made) {
      const { stateFolder, pull = false, hostImage = {} } = this.options
      const owner = ownerOf(stateFolder)
      const folder = join(stateFolder, 'images')
      this.made = { owner, images: new Images({ daemon: this.daemon, owner, folder, pull, hostImage }) }
    }
    return this.made
  }

  private userns(facts: DaemonFacts): string | undefined {
    return facts.kind === 'podman' && !facts.remapped ? this.options.userns : undefined
  }

  private maySee(facts: DaemonFacts): boolean {
    // Without root we could neither give the folder to the container's root nor connect to its socket.
    if (process.platform !== 'linux' || process.getuid?.() !== 0) return false
    // The root of a rootless daemon is an ordinary user of this machine, whose id is not known here.
    return !(facts.remapped && facts.rootId === undefined)
  }

  /** Whether the daemon sees our disk. Tested once. */
  private isShared(image: string, facts: DaemonFacts): Promise<boolean> {
    if (!this.maySee(facts)) return Promise.resolve(false)
    this.shared ??= this.daemon
      .call('Checking whether the daemon sees our disk', (docker) =>
        probeShared(docker, image, this.options.runFolder, labelsFor(this.own().owner, 'probe')),
      )
      .catch((error) => {
        this.shared = undefined
        throw error
      })
    return this.shared
  }
}

function noHolder({ sandboxId }: IsolatorSpec): SandboxError {
  return new SandboxError('unsupported', 'the engine cannot enter the networks of this daemon’s containers', {
    sandboxId,
    hint: 'Use the network `none`, or run the engine as root on the daemon’s machine, without docker.bridge.',
  })
}

function otherNetwork({ sandboxId }: IsolatorSpec): SandboxError {
  return new SandboxError('unsupported', 'the container was created for a network without a policy', {
    sandboxId,
    hint: 'Create a new sandbox from a snapshot of this one.',
  })
}

/** The daemon stores disks itself and creates them from its own images only. */
function refuseLayers({ sandboxId, layers = [], limits, mounts }: IsolatorSpec): void {
  const wanted = [
    layers.length > 0 && 'disks on layers',
    limits.diskBytes !== undefined && 'a disk limit',
    mounts.some(({ readOnly }) => readOnly === false) && 'writable mounts',
  ].find((each) => each !== false)
  if (wanted)
    throw new SandboxError('unsupported', `the isolator \`docker\` does not support ${wanted}`, {
      sandboxId,
      hint: 'Use the isolator `oci`, or mount read-only and copy results out of the sandbox.',
    })
}
