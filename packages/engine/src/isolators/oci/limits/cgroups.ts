import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import { readText } from '../../../read-files.ts'
import type { Limits, SandboxStats } from '../../isolator.ts'
import { startTimeOf } from '../launch/process-start-time.ts'

/**
 * Control groups in any layout: v1 (a hierarchy for each controller), v2 (one for all), or hybrid, where the
 * controllers are in v1 and v2 only freezes and counts. Each controller is used where it is mounted.
 *
 * This file decides. The shim makes, joins and limits the groups (`runner/src/shim/cgroup.rs`) under a name of its
 * own, `<pid>-<start time>`. Afterwards this file reads, freezes and, if a shim was killed, cleans up. A name is
 * never reused, so a group with the name of a dead shim is a leftover.
 */
export interface CgroupLayout {
  /** Controller to the folder of its hierarchy. */
  readonly v1: Readonly<Record<string, string>>
  readonly v2?: { readonly root: string; readonly controllers: readonly string[] }
  /** If I/O is limited: the disk, as `major:minor`, and the limit (`io-limit.ts`). */
  readonly io?: {
    readonly device: string
    readonly readBytesPerSecond?: number
    readonly writeBytesPerSecond?: number
  }
}

/** The limits of a sandbox's group below `parent`, with the control file of each cgroup version. */
export interface Group {
  readonly parent: string
  readonly oom: 1 | 2 | null
  readonly freezer: 1 | 2 | null
  readonly files: readonly { readonly name: string; readonly value: string; readonly optional: boolean }[]
}

const NEEDED = ['memory', 'pids', 'cpu'] as const
const PERIOD_USEC = 100_000
const FLAGS = new Set(['rw', 'ro', 'noprefix', 'xattr', 'clone_children'])

/** From the lines of `/proc/self/mountinfo`. */
export function readLayout(mountinfo: string, controllersOf: (root: string) => string): CgroupLayout {
  const v1: Record<string, string> = {}
  let v2: CgroupLayout['v2']
  for (const line of mountinfo.split('\n')) {
    const [left, right] = line.split(' - ')
    const [type, , options] = right?.split(' ') ?? []
    const root = left?.split(' ')[4]?.replaceAll('\\040', ' ')
    if (root === undefined) continue
    if (type === 'cgroup2') v2 = { root, controllers: controllersOf(root).split(/\s+/).filter(Boolean) }
    // `rw,cpu,cpuacct`: several controllers may share a hierarchy. A named hierarchy (`name=systemd`) has no
    // controller.
    if (type === 'cgroup')
      for (const name of (options ?? '').split(',')) if (!FLAGS.has(name)) v1[name] = root
  }
  return v2 ? { v1, v2 } : { v1 }
}

export function layoutOfThisMachine(): CgroupLayout {
  return readLayout(
    readFileSync('/proc/self/mountinfo', 'utf8'),
    (root) => readText(join(root, 'cgroup.controllers')) ?? '',
  )
}

/** Controllers that we need and this machine does not offer. */
export function missingControllers(layout: CgroupLayout): string[] {
  return NEEDED.filter((name) => !layout.v2?.controllers.includes(name) && layout.v1[name] === undefined)
}

/** Controllers of the v2 hierarchy that limit our sandboxes. */
export function usedControllers(layout: CgroupLayout): string[] {
  const wanted = [...NEEDED, ...(layout.io ? ['io'] : [])]
  return wanted.filter((name) => layout.v2?.controllers.includes(name))
}

/** Paths to hide from crun: it refuses to start where v1 and v2 are mounted side by side. */
export function hiddenFromRuntime(layout: CgroupLayout): string[] {
  return layout.v2 && layout.v1.memory !== undefined ? [layout.v2.root] : []
}

/** The groups of one sandbox, with its limits. `partly` accepts missing controllers. */
export function planGroups(layout: CgroupLayout, parent: string, limits: Limits, partly = false): Group[] {
  const missing = missingControllers(layout)
  if (missing.length > 0 && !partly) {
    throw new SandboxError(
      'unsupported',
      `this machine has no control group controller for ${missing.join(', ')}`,
      {
        hint: 'Boot with cgroup_enable=memory, or delegate the controllers to this container.',
      },
    )
  }
  const v2 = new Set(layout.v2?.controllers)
  const files = new Map<string, { name: string; value: string; optional: boolean }[]>()
  const set = (root: string, entries: [name: string, value: string, optional?: 'optional'][]) => {
    const known = files.get(root) ?? []
    for (const [name, value, optional] of entries)
      known.push({ name, value, optional: optional !== undefined })
    files.set(root, known)
  }
  const bytes = String(Math.floor(limits.memoryBytes))
  const quota = String(Math.max(1000, Math.round(limits.cpus * PERIOD_USEC)))
  const whereIs = (controller: string) => (v2.has(controller) ? layout.v2!.root : layout.v1[controller]!)
  if (missing.includes('memory')) {
    // Other mechanisms enforce this limit.
  } else if (v2.has('memory'))
    set(whereIs('memory'), [
      ['memory.max', bytes],
      ['memory.swap.max', '0', 'optional'],
    ])
  else
    set(whereIs('memory'), [
      ['memory.limit_in_bytes', bytes],
      ['memory.memsw.limit_in_bytes', bytes, 'optional'],
      // v2 counts the buffers of sockets as memory. v1 does not count them at all, unless they have a limit.
      ['memory.kmem.tcp.limit_in_bytes', String(Math.floor(limits.memoryBytes / 4)), 'optional'],
    ])
  if (!missing.includes('pids')) set(whereIs('pids'), [['pids.max', String(limits.pids)]])
  if (missing.includes('cpu')) {
  } else if (v2.has('cpu')) set(whereIs('cpu'), [['cpu.max', `${quota} ${PERIOD_USEC}`]])
  else
    set(whereIs('cpu'), [
      ['cpu.cfs_period_us', String(PERIOD_USEC)],
      ['cpu.cfs_quota_us', quota],
    ])
  const { io } = layout
  if (io && v2.has('io')) {
    const rates = [
      ...(io.readBytesPerSecond === undefined ? [] : [`rbps=${io.readBytesPerSecond}`]),
      ...(io.writeBytesPerSecond === undefined ? [] : [`wbps=${io.writeBytesPerSecond}`]),
    ]
    set(layout.v2!.root, [['io.max', [io.device, ...rates].join(' ')]])
  } else if (io) {
    const { readBytesPerSecond: read, writeBytesPerSecond: write, device } = io
    if (read !== undefined) set(layout.v1.blkio!, [['blkio.throttle.read_bps_device', `${device} ${read}`]])
    if (write !== undefined)
      set(layout.v1.blkio!, [['blkio.throttle.write_bps_device', `${device} ${write}`]])
  }
  const memory = missing.includes('memory') ? undefined : whereIs('memory')
  const freezer = layout.v2?.root ?? layout.v1.freezer
  return groupRoots(layout).map((root) => ({
    parent: join(root, parent),
    oom: root === memory ? (v2.has('memory') ? 2 : 1) : null,
    freezer: root === freezer ? (layout.v2 ? 2 : 1) : null,
    files: files.get(root) ?? [],
  }))
}

/** The hierarchies that we use. Freezing and counting processor time need no controller in v2. */
export function groupRoots({ v1, v2, io }: CgroupLayout): string[] {
  const limiting = NEEDED.map((name) => (v2?.controllers.includes(name) ? v2.root : v1[name]))
  const disks = io && !v2?.controllers.includes('io') ? [v1.blkio] : []
  const roots = new Set([...limiting, ...disks, ...(v2 ? [v2.root] : [v1.freezer, v1.cpuacct])])
  return [...roots].filter((root) => root !== undefined)
}

/** All roots, including the one for I/O, which is used only if I/O was limited when the group was made. */
function everyRoot(layout: CgroupLayout): string[] {
  const { blkio } = layout.v1
  return [...new Set([...groupRoots(layout), ...(blkio === undefined ? [] : [blkio])])]
}

/** Removes the groups of shims that were killed. */
export async function sweepGroups(layout: CgroupLayout, parent: string): Promise<void> {
  const names = new Set<string>()
  for (const root of everyRoot(layout)) {
    for (const name of readdirOr(join(root, parent))) {
      const [, pid, startTime] = /^(\d+)-(\d+)$/.exec(name) ?? []
      if (pid !== undefined && startTimeOf(Number(pid)) !== Number(startTime)) names.add(name)
    }
  }
  for (const name of names) await new SandboxGroups(layout, parent, name).clear()
}

/** Makes the parent of all our groups, once per process. */
export function prepareParents(layout: CgroupLayout, parent: string): void {
  const controllers = usedControllers(layout)
  for (const root of groupRoots(layout)) mkdirSync(join(root, parent), { recursive: true })
  if (!layout.v2 || controllers.length === 0) return
  const enable = controllers.map((name) => `+${name}`).join(' ')
  for (const folder of [layout.v2.root, join(layout.v2.root, parent)]) {
    const on = (readText(join(folder, 'cgroup.subtree_control')) ?? '').split(/\s+/)
    if (!controllers.every((name) => on.includes(name)))
      writeFileSync(join(folder, 'cgroup.subtree_control'), enable)
  }
}

/** Control over the groups of one running sandbox. */
export class SandboxGroups {
  private readonly layout: CgroupLayout
  private readonly path: (root: string) => string

  constructor(layout: CgroupLayout, parent: string, name: string) {
    this.layout = layout
    this.path = (root) => join(root, parent, name)
  }

  stats(): SandboxStats {
    const { v1, v2 } = this.layout
    const throttledNsec = v2?.controllers.includes('cpu')
      ? undefined
      : this.number(v1.cpu, 'cpu.stat', 'throttled_time')
    const acctNsec = v2 ? undefined : this.number(v1.cpuacct, 'cpuacct.usage')
    return definedOnly({
      memoryBytes: this.either('memory', 'memory.current', 'memory.usage_in_bytes'),
      memoryLimitBytes: this.either('memory', 'memory.max', 'memory.limit_in_bytes'),
      pids: this.either('pids', 'pids.current', 'pids.current'),
      cpuUsec: v2 ? this.number(v2.root, 'cpu.stat', 'usage_usec') : acctNsec && Math.round(acctNsec / 1000),
      throttledUsec:
        throttledNsec === undefined
          ? this.number(v2?.root, 'cpu.stat', 'throttled_usec')
          : Math.round(throttledNsec / 1000),
      oomKills: this.oomKills(),
      pidsRefused: this.either('pids', 'pids.events', 'pids.events', 'max'),
    })
  }

  /** Reads one small file, because this runs before every command. */
  oomKills(): number | undefined {
    return this.either('memory', 'memory.events', 'memory.oom_control', 'oom_kill')
  }

  private either(controller: string, file2: string, file1: string, key?: string): number | undefined {
    const { v1, v2 } = this.layout
    return v2?.controllers.includes(controller)
      ? this.number(v2.root, file2, key)
      : this.number(v1[controller], file1, key)
  }

  /** The content of a file, or of its line with this key. */
  private number(root: string | undefined, file: string, key?: string): number | undefined {
    const text = root === undefined ? undefined : readText(join(this.path(root), file))
    const line = key === undefined ? text : text?.split('\n').find((line) => line.startsWith(`${key} `))
    const value = key === undefined ? line : line?.slice(key.length + 1)
    return value === undefined || !/^\d+\s*$/.test(value) ? undefined : Number(value)
  }

  canFreeze(): boolean {
    return this.layout.v2 !== undefined || this.layout.v1.freezer !== undefined
  }

  /** Resolves when the sandbox is frozen or thawed. The kernel needs some time to stop every thread. */
  async freeze(frozen: boolean): Promise<void> {
    const { v1, v2 } = this.layout
    const [file, value, stateFile, done] = v2
      ? ([
          join(this.path(v2.root), 'cgroup.freeze'),
          frozen ? '1' : '0',
          'cgroup.events',
          `frozen ${frozen ? 1 : 0}`,
        ] as const)
      : ([
          join(this.path(v1.freezer ?? ''), 'freezer.state'),
          frozen ? 'FROZEN' : 'THAWED',
          'freezer.state',
          frozen ? 'FROZEN' : 'THAWED',
        ] as const)
    writeFileSync(file, value)
    const state = join(file, '..', stateFile)
    for (let waitedMs = 0; waitedMs < 10_000; waitedMs++) {
      if (readFileSync(state, 'utf8').includes(done)) return
      await sleep(1)
    }
    throw new SandboxError('timeout', `the sandbox was not ${frozen ? 'frozen' : 'thawed'} in 10 s`)
  }

  /** Whether any group of the sandbox exists. */
  exist(): boolean {
    return this.all().some((path) => existsSync(path))
  }

  /** Kills the sandbox of a shim that was killed. */
  async clear(): Promise<void> {
    const { v1, v2 } = this.layout
    // A v2 group kills all its processes at once, frozen ones too.
    if (v2) writeOr(join(this.path(v2.root), 'cgroup.kill'), '1')
    for (let attempt = 0; this.exist(); attempt++) {
      if (!v2 && v1.freezer !== undefined) {
        for (const pid of (readText(join(this.path(v1.freezer), 'cgroup.procs')) ?? '')
          .split('\n')
          .filter(Boolean))
          killQuietly(Number(pid))
        writeOr(join(this.path(v1.freezer), 'freezer.state'), 'THAWED')
      }
      for (const path of this.all()) {
        try {
          rmdirSync(path)
        } catch (cause) {
          const { code } = cause as NodeJS.ErrnoException
          if (code === 'ENOENT') continue
          if (code !== 'EBUSY' || attempt > 1000) {
            throw new SandboxError('internal', `control group ${path} could not be removed`, { cause })
          }
        }
      }
      if (this.exist()) await sleep(attempt < 20 ? 1 : 10)
    }
  }

  private all(): string[] {
    return everyRoot(this.layout).map(this.path)
  }
}

function definedOnly<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as T
}

function readdirOr(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

function writeOr(path: string, value: string): void {
  try {
    writeFileSync(path, value)
  } catch {
    // The group does not exist.
  }
}

/** Call it only with pids just read from the group's own list, so that they are processes of that sandbox. */
function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has exited.
  }
}
