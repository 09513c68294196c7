import { existsSync, mkdirSync, rmdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Isolation, SandboxError } from '@sandkasten/sdk'
import { errnoOf, translate } from '@sandkasten/sdk/internal'
import { collectHostImages } from '../../images/host/garbage.ts'
import { type HostImageOptions, hiddenInHost } from '../../images/host/hidden.ts'
import { type HostImage, hostImage } from '../../images/host/host.ts'
import { hostRootLayer } from '../../images/host/root.ts'
import { withSudo } from '../../images/sudo-layer.ts'
import { checkSpec } from '../check-spec.ts'
import {
  type IsolatedSandbox,
  type Isolator,
  type IsolatorSpec,
  type LayeredDisks,
  type ProbeResult,
  type SandboxEnd,
  type SandboxPlace,
  storedImage,
} from '../isolator.ts'
import { checkedAllow, type OpenNetwork } from '../open-network.ts'
import { DiskRemover, readRange } from './disk/disk.ts'
import { collectDiskTemplates, diskTemplateFor } from './disk/limited-disk.ts'
import { findProgram } from './launch/find-program.ts'
import { Launcher } from './launch/launcher.ts'
import { probeGvisor } from './launch/probe-gvisor.ts'
import { startTimeOf } from './launch/process-start-time.ts'
import { findRuntime, isolationOf, type Runtime, type RuntimeKind } from './launch/runtime.ts'
import { lastShim, readEnd, startShim, Witness } from './launch/shim.ts'
import { type ImageBind, shimSetup, shimTask, type TaskInput } from './launch/shim-task.ts'
import type { CgroupLayout } from './limits/cgroups.ts'
import { layoutOfThisMachine, SandboxGroups, sweepGroups } from './limits/cgroups.ts'
import { type IoLimit, withIoLimit } from './limits/io-limit.ts'
import { type Places, placesOf } from './places.ts'
import type { IdRangeOptions } from './privileges/id-ranges.ts'
import { makeStage, type Privileges, privilegesOf } from './privileges/privileges.ts'
import { maxOpenFiles, probe, thisArchitecture } from './probe.ts'
import { OciSandbox } from './sandbox.ts'

export interface OciIsolatorOptions {
  /** The runner's binary: PID 1 inside, and the shim outside. */
  readonly runner: string
  /** An OCI runtime: `crun` (the default), `runc`, gVisor’s `runsc`, or a path to one. */
  readonly runtime?: string
  /** The runtime's command line syntax. Required only if neither its name nor its version shows it. */
  readonly runtimeKind?: RuntimeKind
  readonly pasta?: string
  /** How fast each sandbox may read and write. */
  readonly ioLimit?: IoLimit
  /** The parts of this machine that the image `host` hides. */
  readonly hostImage?: HostImageOptions
  /** Networks that sandboxes with the network `open` may reach. */
  readonly openNetwork?: OpenNetwork
  /** For sockets. The path must be short, and need not survive a reboot. */
  readonly runFolder?: string
  readonly imagesFolder?: string
  readonly ids?: Partial<IdRangeOptions>
  /** The control group that all sandboxes are in. */
  readonly cgroupParent?: string
  /**
   * Let the kernel write a sandbox's files to the disk later instead of waiting for it at each stop. Only a power
   * failure makes a difference. Default true.
   */
  readonly volatile?: boolean
  /** Prepare the next start in the background. Default true; a program that starts one sandbox is faster without. */
  readonly prepareNext?: boolean | undefined
  readonly readyTimeoutMs?: number
}

/**
 * Sandboxes as OCI containers on `crun`, `runc` or `runsc`, without a daemon. A shim for each sandbox
 * (`runner/src/shim/mod.rs`) is its parent and the witness of its end.
 *
 * The small file operations are synchronous on purpose: each takes microseconds, and a thread pool would cost more
 * than the start itself.
 */
export class OciIsolator implements Isolator {
  readonly name = 'oci'
  readonly isolation: Isolation
  private readonly options: Required<Omit<OciIsolatorOptions, 'ids' | 'runtimeKind' | 'prepareNext'>> &
    Pick<OciIsolatorOptions, 'runtimeKind'>
  /** Root's privileges, or an ordinary account's. */
  readonly privileges: Privileges
  private readonly launcher: Launcher
  private readonly remover: DiskRemover
  readonly runFolders: readonly string[]
  /** A probe that starts a sandbox has succeeded. */
  private works = false
  private prepared?: Promise<Prepared> | undefined
  private host?: { at: number; image: HostImage }
  /** The layer for sandboxes of the image `host` with the user root. */
  private hostRoot: string | undefined

  constructor(options: OciIsolatorOptions) {
    checkedAllow(options.openNetwork?.allow ?? [])
    hiddenInHost(options.hostImage ?? {})
    this.privileges = privilegesOf(options)
    this.isolation = isolationOf(options)
    const { folders } = this.privileges
    this.runFolders = [folders.run]
    const once = options.prepareNext === false ? ['--once'] : []
    this.launcher = new Launcher(this.privileges.command(options.runner, options.runner, 'launcher', ...once))
    this.remover = new DiskRemover(this.privileges.command(options.runner, options.runner, 'tree', 'serve'))
    this.options = {
      runner: options.runner,
      runtime: options.runtime ?? 'crun',
      runtimeKind: options.runtimeKind,
      pasta: options.pasta ?? 'pasta',
      openNetwork: options.openNetwork ?? {},
      hostImage: options.hostImage ?? {},
      ioLimit: options.ioLimit ?? {},
      runFolder: folders.run,
      imagesFolder: options.imagesFolder ?? join(folders.data, 'images'),
      cgroupParent: options.cgroupParent ?? 'sandkasten',
      volatile: options.volatile ?? true,
      readyTimeoutMs: options.readyTimeoutMs ?? 30_000,
    }
  }

  async weaker(): Promise<readonly string[]> {
    return this.privileges.weaker(this.privileges.layout())
  }

  readonly disks: LayeredDisks = {
    upperOf: (spec) => {
      const disk = this.diskOf(spec, placesOf(spec, this.options.runFolder))
      return spec.limits.diskBytes === undefined ? { folder: disk } : { file: disk }
    },
    lowerFoldersOf: async (spec) => {
      await this.prepareImage(spec)
      return this.image(spec).layers
    },
  }

  async probe(): Promise<ProbeResult> {
    const result = await probe({ ...this.options, privileges: this.privileges })
    if (!result.ok || this.works) return result
    const { kind, program } = await findRuntime(this.options.runtime, this.options.runtimeKind)
    if (kind !== 'runsc') return result
    const tried = await probeGvisor(this, program, result.detail)
    this.works = tried.ok
    return tried
  }

  async start(spec: IsolatorSpec): Promise<IsolatedSandbox> {
    const places = placesOf(spec, this.options.runFolder)
    const { layout, stage, runtime } = await this.prepare()
    checkSpec(spec, runtime.kind, this.privileges.kind)
    await this.prepareImage(spec)
    this.launcher.warm(() => this.setup(layout, stage, runtime), join(this.options.runFolder, 'shim.log'))
    await this.claim(places, spec.sandboxId)
    const isNew = readRange(places) === undefined
    try {
      if (!isNew && !existsSync(this.diskOf(spec, places))) throw lostDisk(this.diskOf(spec, places))
      mkdirSync(places.folder, { recursive: true, mode: 0o700 })
      const firstId = this.privileges.takeIds(places)
      this.privileges.prepareDisk(places, spec)
      const { diskBytes } = spec.limits
      const diskTemplate =
        diskBytes === undefined ? undefined : await diskTemplateFor(diskBytes, this.options.imagesFolder)
      rmSync(places.end, { force: true })
      const task = shimTask({
        privileges: this.privileges,
        spec,
        places,
        firstId,
        image: this.image(spec),
        layout,
        stage,
        cgroupParent: this.options.cgroupParent,
        runtime: runtime.kind,
        pasta: spec.network === 'open' ? findProgram(this.options.pasta) : '',
        openNetwork: this.options.openNetwork,
        architecture: thisArchitecture(),
        maxOpenFiles: maxOpenFiles(),
        volatile: this.options.volatile,
        diskTemplate,
        readyTimeoutMs: this.options.readyTimeoutMs,
      })
      const starting = startShim(this.launcher, task, spec.sandboxId)
      // The removal needs this process. Its start takes milliseconds of ours, which are free while the shim works.
      this.remover.warm()
      await starting
      const witness = await Witness.open(places.witness)
      if (!witness) throw new SandboxError('unavailable', 'the sandbox ended as soon as it had started')
      return this.sandbox(spec.sandboxId, places, layout, witness)
    } catch (cause) {
      const error = translate(cause, 'cannot start the sandbox')
      await this.undo(spec, places, isNew).catch((also: Error) => {
        throw new SandboxError(error.code, `${error.message}; and then ${also.message}`, {
          cause,
          hint: error.hints,
          details: error.details,
        })
      })
      throw error
    }
  }

  async attach(place: SandboxPlace): Promise<IsolatedSandbox | undefined> {
    const places = placesOf(place, this.options.runFolder)
    const { layout } = await this.prepare()
    // Read the identity first: a named shim that does not listen was killed. In the other order it could still be
    // starting.
    const last = lastShim(places)
    const witness = await Witness.open(places.witness)
    if (witness) return this.sandbox(place.sandboxId, places, layout, witness)
    if (last && startTimeOf(last.pid) !== last.startTime)
      await new SandboxGroups(layout, this.options.cgroupParent, last.group).clear()
    return undefined
  }

  async lastEnd(place: SandboxPlace): Promise<SandboxEnd | undefined> {
    return readEnd(placesOf(place, this.options.runFolder))
  }

  async remove(place: SandboxPlace): Promise<boolean> {
    const places = placesOf(place, this.options.runFolder)
    const running = await this.attach(place)
    await running?.kill()
    rmSync(places.run, { recursive: true, force: true })
    const firstId = readRange(places)
    const existed = running !== undefined || firstId !== undefined
    // The disk goes before its ids: they are handed on only when no file of theirs is left.
    if (existed) await this.remover.remove(places.disk, places.limitedDisk)
    if (firstId !== undefined) this.privileges.freeIds(firstId, places)
    for (const file of [places.range, places.state, places.end]) rmSync(file, { force: true })
    try {
      rmdirSync(places.folder)
    } catch {
      // Already gone, or the engine keeps files of its own there and removes it later.
    }
    return existed
  }

  /** Ends the prepared shim. Running sandboxes continue, and the next start prepares a new shim. */
  async close(): Promise<void> {
    await Promise.all([this.launcher.close(), this.remover.close()])
  }

  async sweep(below: string): Promise<void> {
    this.privileges.sweepIds((folder) => folder.startsWith(`${below}/`) && !existsSync(dirname(folder)))
    const { imagesFolder } = this.options
    // Another engine that runs as root may keep its own images in this folder.
    if (dirname(below) !== dirname(imagesFolder)) return
    collectHostImages(imagesFolder)
    collectDiskTemplates(imagesFolder)
  }

  /** Creating the run folder is the claim: the process that succeeds starts the sandbox. */
  private async claim(places: Places, sandboxId: string): Promise<void> {
    try {
      mkdirSync(places.run, { mode: 0o700 })
      return
    } catch (cause) {
      if (errnoOf(cause) !== 'EEXIST') throw noRunFolder(cause, places)
    }
    if (await this.attach({ sandboxId, folder: places.folder })) {
      throw new SandboxError('conflict', `sandbox ${sandboxId} runs already`, {
        sandboxId,
        hint: 'Use attach().',
      })
    }
    rmSync(places.run, { recursive: true, force: true })
    mkdirSync(places.run, { mode: 0o700 })
  }

  /**
   * Undoes a failed start; its shim has already cleaned up. If the sandbox runs, another process has started it, so
   * nothing is removed.
   */
  private async undo(place: SandboxPlace, places: Places, isNew: boolean): Promise<void> {
    if (await this.attach(place)) return
    await sweepGroups((await this.prepare()).layout, this.options.cgroupParent)
    rmSync(places.run, { recursive: true, force: true })
    if (isNew) await this.remove(place)
  }

  private diskOf({ limits }: IsolatorSpec, { upper, limitedDisk }: Places): string {
    return limits.diskBytes === undefined ? upper : limitedDisk
  }

  private image(spec: IsolatorSpec): TaskInput['image'] {
    if (spec.image !== 'host') {
      const layers = 'rootfs' in spec.image ? [spec.image.rootfs] : storedImage(spec.image)?.layers
      const all = layers && spec.user === 'root' ? withSudo(layers, this.options.imagesFolder) : layers
      if (all) return { layers: all, binds: [], hidden: [] }
      throw new SandboxError('unsupported', 'the isolator `oci` has no images by name and no snapshots')
    }
    // A check for changes of the machine takes a hundred system calls, so it runs at most once a second, unless the
    // image is gone.
    if (!this.host || performance.now() - this.host.at > 1000 || !existsSync(this.host.image.layer))
      this.host = {
        at: performance.now(),
        image: hostImage(this.options.imagesFolder, '/', this.options.hostImage),
      }
    const { layer, binds, hidden } = this.host.image
    if (spec.user !== 'root' || this.hostRoot === undefined) return { layers: [layer], binds, hidden }
    return { layers: [this.hostRoot, layer], binds: writableBinds(this.hostRoot, binds, hidden), hidden: [] }
  }

  private async prepareImage({ image, user }: IsolatorSpec): Promise<void> {
    if (image !== 'host' || user !== 'root') return
    const { imagesFolder, hostImage: options } = this.options
    const programs = hostImage(imagesFolder, '/', options).binds.map(({ target }) => target.slice(1))
    this.hostRoot = await hostRootLayer(imagesFolder, programs)
  }

  private sandbox(sandboxId: string, places: Places, layout: CgroupLayout, witness: Witness): OciSandbox {
    const groups = new SandboxGroups(layout, this.options.cgroupParent, witness.shim.group)
    // The file system of a limited disk is mounted only in the shim's mount namespace. Root reaches it through /proc.
    const { stage } = this.privileges.folders
    const limited = join('/proc', String(witness.shim.pid), 'root', stage, 'limited/upper')
    const upper = existsSync(places.limitedDisk) ? limited : places.upper
    // A removal usually follows a kill.
    const onKill = () => this.remover.warm()
    return new OciSandbox(sandboxId, { places, groups, witness, upper, onKill })
  }

  private setup(layout: CgroupLayout, stage: string, runtime: Runtime): object {
    const { cgroupParent, runner } = this.options
    const { privileges } = this
    makeStage(privileges)
    return shimSetup({
      runtime,
      runner,
      stage,
      layout,
      machine: layoutOfThisMachine(),
      cgroupParent,
      privileges,
    })
  }

  private prepare(): Promise<Prepared> {
    this.prepared ??= this.makeReady()
    this.prepared.catch(() => {
      this.prepared = undefined
    })
    return this.prepared
  }

  private async makeReady(): Promise<Prepared> {
    const { stage } = this.privileges.folders
    const { imagesFolder, ioLimit } = this.options
    const layout = withIoLimit(this.privileges.layout(), imagesFolder, ioLimit)
    // Looked up once, because the prepared shim depends on this runtime.
    const runtime = await findRuntime(this.options.runtime, this.options.runtimeKind, this.privileges.kind)
    try {
      this.privileges.prepareGroups(layout, this.options.cgroupParent)
      await sweepGroups(layout, this.options.cgroupParent)
    } catch (cause) {
      throw new SandboxError('unavailable', `cannot create control groups: ${(cause as Error).message}`, {
        cause,
        hint: 'Run on the host, or where the memory, pids and cpu controllers are delegated to this process.',
      })
    }
    makeStage(this.privileges)
    return { layout, stage, runtime }
  }
}

/** The machine's programs as a layer that the sandbox's root may write above. */
function writableBinds(
  hostRoot: string,
  binds: HostImage['binds'],
  hidden: HostImage['hidden'],
): readonly ImageBind[] {
  return binds.map(({ source, target }) => {
    const below = hidden.map(({ path }) => path).filter((path) => path.startsWith(`${target}/`))
    const programs = {
      folder: target.slice(1),
      folders: join(hostRoot, target),
      hidden: below.map((path) => path.slice(target.length + 1)),
    }
    return { source, target, programs }
  })
}

/** The sandbox had a disk. A new empty disk would look as if all files had been deleted. */
function lostDisk(disk: string): SandboxError {
  return new SandboxError('internal', 'The disk of the sandbox is gone.', {
    details: { disk },
    hint: `Put ${disk} back from a backup, or destroy the sandbox.`,
  })
}

function noRunFolder(cause: unknown, { run }: Places): SandboxError {
  const { code, message, details } = translate(cause, `cannot create the folder ${run}`)
  return new SandboxError(code, message, {
    cause,
    details,
    hint: `Make ${dirname(run)} writable and check its free space (df -h, df -i), or choose another folder with oci.runFolder.`,
  })
}

interface Prepared {
  readonly layout: CgroupLayout
  readonly stage: string
  readonly runtime: Runtime
}
