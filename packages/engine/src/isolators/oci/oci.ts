import { chmodSync, chownSync, mkdirSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { type HostImage, hostImage } from '../../images/host.ts'
import type {
  IsolatedSandbox,
  Isolator,
  IsolatorSpec,
  ProbeResult,
  SandboxEnd,
  SandboxPlace,
} from '../isolator.ts'
import type { CgroupLayout } from './cgroups.ts'
import { layoutOfThisMachine, prepareParents, SandboxGroups } from './cgroups.ts'
import { checkSpec } from './check-spec.ts'
import { prepareDisk, rangeOf, readRange, removeTree } from './disk.ts'
import type { IdRangeOptions } from './ids.ts'
import { defaultIdRanges, IdRanges } from './ids.ts'
import { Launcher } from './launcher.ts'
import { lifeOf, type Places, placesOf } from './places.ts'
import { findProgram, maxOpenFiles, probe, thisArchitecture } from './probe.ts'
import { OciSandbox } from './sandbox.ts'
import { readEnd, startShim, Witness } from './shim.ts'
import { shimTask } from './task.ts'

export interface OciIsolatorOptions {
  /** The runner's binary: PID 1 inside, and the shim outside. */
  readonly runner: string
  /** An OCI runtime: a name in PATH or a path. */
  readonly runtime?: string
  readonly pasta?: string
  /** For sockets: short, and not kept over a reboot. */
  readonly runFolder?: string
  readonly imagesFolder?: string
  readonly ids?: Partial<IdRangeOptions>
  /** The control group that all sandboxes are in. */
  readonly cgroupParent?: string
  /**
   * Leave writing a sandbox's files out to the machine, as for any other file, instead of waiting for it when the sandbox stops. Only a
   * power failure tells the difference. True unless said otherwise.
   */
  readonly volatile?: boolean
  readonly readyTimeoutMs?: number
}

/**
 * Sandboxes as OCI containers run by `crun`, without any daemon: a shim per sandbox (`runner/src/shim/mod.rs`) is its parent and its witness.
 *
 * The small file operations here are synchronous on purpose: each takes microseconds, and a thread pool would cost more than the start itself.
 */
export class OciIsolator implements Isolator {
  readonly name = 'oci'
  readonly isolation = 'container'
  private readonly options: Required<Omit<OciIsolatorOptions, 'ids'>>
  private readonly ranges: IdRanges
  private readonly launcher: Launcher
  private layout?: CgroupLayout
  private host?: { at: number; image: HostImage }

  constructor(options: OciIsolatorOptions) {
    this.ranges = new IdRanges({ ...defaultIdRanges, ...options.ids })
    this.launcher = new Launcher(options.runner)
    this.options = {
      runner: options.runner,
      runtime: options.runtime ?? 'crun',
      pasta: options.pasta ?? 'pasta',
      runFolder: options.runFolder ?? '/run/sandkasten',
      imagesFolder: options.imagesFolder ?? '/var/lib/sandkasten/images',
      cgroupParent: options.cgroupParent ?? 'sandkasten',
      volatile: options.volatile ?? true,
      readyTimeoutMs: options.readyTimeoutMs ?? 30_000,
    }
  }

  probe(): Promise<ProbeResult> {
    return probe(this.options)
  }

  async start(spec: IsolatorSpec): Promise<IsolatedSandbox> {
    checkSpec(spec)
    const places = placesOf(spec, this.options.runFolder)
    const { layout, stage } = this.prepare()
    await this.claim(places, spec.sandboxId)
    const isNew = readRange(places) === undefined
    try {
      mkdirSync(places.folder, { recursive: true, mode: 0o700 })
      const firstId = rangeOf(places, this.ranges)
      prepareDisk(places, spec, firstId)
      // The runner makes its socket in here as the sandbox's root; the sandbox's user may not even look.
      mkdirSync(places.io, { mode: 0o700 })
      chownSync(places.io, firstId, firstId)
      rmSync(places.end, { force: true })
      const task = shimTask({
        spec,
        places,
        firstId,
        image: this.image(spec),
        layout,
        stage,
        cgroupParent: this.options.cgroupParent,
        runtime: findProgram(this.options.runtime),
        runner: this.options.runner,
        pasta: spec.network === 'open' ? findProgram(this.options.pasta) : '',
        architecture: thisArchitecture(),
        maxOpenFiles: maxOpenFiles(),
        volatile: this.options.volatile,
        readyTimeoutMs: this.options.readyTimeoutMs,
      })
      await startShim(this.launcher, task, places, spec.sandboxId)
      const witness = await Witness.open(places.witness)
      if (!witness) throw new SandboxError('unavailable', 'the sandbox ended as soon as it had started')
      return new OciSandbox(spec.sandboxId, places, this.groups(spec.sandboxId), witness)
    } catch (error) {
      await this.undo(spec, places, isNew)
      throw error
    }
  }

  async attach(place: SandboxPlace): Promise<IsolatedSandbox | undefined> {
    const places = placesOf(place, this.options.runFolder)
    const groups = this.groups(place.sandboxId)
    // In this order: a shim listens before it makes groups and until it has removed them. So groups that were there while nobody listened
    // were left by a shim that was killed, and not made by one that is just starting.
    const left = groups.exist()
    const stillOurs = sameLife(places)
    const witness = await Witness.open(places.witness)
    if (witness) return new OciSandbox(place.sandboxId, places, groups, witness)
    if (left) await groups.clear(stillOurs)
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
    if (existed) await removeTree(places.disk, `${places.disk}.new`)
    if (firstId !== undefined) this.ranges.free(firstId, places.folder)
    for (const file of [places.range, places.state, places.end]) rmSync(file, { force: true })
    try {
      rmdirSync(places.folder)
    } catch {
      // Not there, or the engine keeps more in it than we do: it is the engine's to remove.
    }
    return existed
  }

  /** The run folder is the claim: who makes it starts the sandbox. */
  private async claim(places: Places, sandboxId: string): Promise<void> {
    try {
      mkdirSync(places.run, { mode: 0o700 })
      return
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause
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
   * A start that failed leaves what was there before: its shim has taken away all that it made. Unless one lives there: then somebody else has
   * started this sandbox meanwhile, and nothing here is ours.
   */
  private async undo(place: SandboxPlace, places: Places, isNew: boolean): Promise<void> {
    if (await this.attach(place)) return
    rmSync(places.run, { recursive: true, force: true })
    if (isNew) await this.remove(place)
  }

  private image(spec: IsolatorSpec) {
    if (spec.image !== 'host') {
      if ('rootfs' in spec.image) return { layers: [spec.image.rootfs], binds: [] }
      throw new SandboxError('unsupported', 'crun knows no images by name, and no snapshots.')
    }
    // Looking whether the machine has changed takes a hundred system calls: once a second is often enough.
    if (!this.host || Date.now() - this.host.at > 1000)
      this.host = { at: Date.now(), image: hostImage(this.options.imagesFolder) }
    const { layer, binds } = this.host.image
    return { layers: [layer], binds }
  }

  private groups(sandboxId: string): SandboxGroups {
    return new SandboxGroups(this.prepare().layout, this.options.cgroupParent, sandboxId)
  }

  private prepare(): { layout: CgroupLayout; stage: string } {
    const stage = join(this.options.runFolder, 'stage')
    if (!this.layout) {
      const layout = layoutOfThisMachine()
      try {
        prepareParents(layout, this.options.cgroupParent)
      } catch (cause) {
        throw new SandboxError('unavailable', `control groups cannot be made: ${(cause as Error).message}`, {
          cause,
          hint: 'Run on the host, or where the memory, pids and cpu controllers are delegated to this process.',
        })
      }
      mkdirSync(stage, { recursive: true, mode: 0o755 })
      // Whatever the umask: the runtime's child, nobody on the host, walks through both.
      for (const folder of [this.options.runFolder, stage]) chmodSync(folder, 0o755)
      this.layout = layout
    }
    return { layout: this.layout, stage }
  }
}

/** Does the run folder's life, as it is now, go on to be the one there? */
function sameLife(places: Places): () => boolean {
  const life = lifeOf(places)
  return () => lifeOf(places) === life
}
