/** Real sandboxes for tests, in folders and control groups of this test process. `leftovers` lists their remains. */
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RunnerClient, type RunOptions } from '@sandkasten/runner-client'
import { shareHostLayers } from '../../../images/testing/shared-host.ts'
import { buildRunner } from '../../../runner/build-runner.ts'
import type { IsolatedSandbox, IsolatorSpec, Limits } from '../../isolator.ts'
import { DiskRemover } from '../disk/disk.ts'
import { OciIsolator, type OciIsolatorOptions } from '../isolator.ts'
import { isolationOf } from '../launch/runtime.ts'
import { layoutOfThisMachine } from '../limits/cgroups.ts'
import { thisAccount } from '../privileges/account.ts'
import type { Privileges } from '../privileges/privileges.ts'

export interface Bench extends AsyncDisposable {
  readonly kind: Privileges['kind']
  /** The users inside a sandbox. */
  readonly users: readonly string[]
  /** Maps an id inside the sandbox to its id on the host. */
  hostId(box: Box, inside: number): number
  readonly isolator: OciIsolator
  readonly options: OciIsolatorOptions
  /** For the test's own files on the host. */
  readonly folder: string
  /** Creates another isolator over the same folders, as another process would. */
  another(options?: Partial<OciIsolatorOptions>): OciIsolator
  spec(changes?: SpecChanges): IsolatorSpec
  start(changes?: SpecChanges): Promise<Box>
  /** Every process, mount, control group, id range and socket folder of this bench's sandboxes. */
  leftovers(): string[]
  /** Names of the control groups below this bench's own: those of sandboxes and of prepared shims. */
  groups(): string[]
  frozen(box: Box): boolean
  /** Closes all isolators of this bench, which removes their prepared shims. */
  closeAll(): Promise<void>
  /** Removes every sandbox that was started. */
  clear(): Promise<void>
}

export type SpecChanges = Partial<Omit<IsolatorSpec, 'limits'>> & { limits?: Partial<Limits> }

export interface Box {
  readonly spec: IsolatorSpec
  readonly sandbox: IsolatedSandbox
  readonly client: RunnerClient
  /** Host numbers, from the file that its shim wrote. */
  readonly pids: { shim: number; runner: number }
  readonly firstId: number
  /** As the sandbox's user unless `user` says otherwise. Output is trimmed. */
  sh(script: string, options?: Partial<RunOptions>): Promise<Said>
}

export interface Said {
  out: string
  err: string
  code: number | undefined
  signal: string | undefined
}

const MiB = 1024 * 1024

/** Why sandbox tests cannot run on this machine. Undefined if they can. */
export async function reasonToSkip(
  who: 'anyone' | 'root' = 'root',
  runtime = 'crun',
): Promise<string | undefined> {
  if (process.platform !== 'linux' || (who === 'root' && process.getuid?.() !== 0))
    return 'needs root on Linux: sudo -E npm test'
  const runner = isolationOf({ runtime }) === 'gvisor' ? await buildRunner() : '/bin/true'
  const isolator = new OciIsolator({ runner, runtime })
  const probe = await isolator.probe().finally(() => isolator.close())
  return probe.ok ? undefined : `${probe.reason}; ${probe.fix}`
}

export interface BenchOptions {
  /** For layers of the image `host` that other tests do not share: for tests that add folders to /usr. */
  readonly imagesFolder?: string | undefined
}

export async function createBench(runtime = 'crun', { imagesFolder }: BenchOptions = {}): Promise<Bench> {
  const name = `skt-${randomBytes(4).toString('hex')}`
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  const runFolder = process.getuid?.() === 0 ? join('/run', name) : join(tmpdir(), name)
  const options: OciIsolatorOptions = {
    runner: process.env.SANDKASTEN_RUNNER ?? (await buildRunner()),
    runtime,
    runFolder,
    imagesFolder: imagesFolder ?? join(folder, 'images'),
    ids: { folder: join(folder, 'ids') },
    cgroupParent: name,
  }
  if (imagesFolder === undefined) await shareHostLayers(join(folder, 'images'))
  const isolator = new OciIsolator(options)
  const { kind } = isolator.privileges
  const isolators = [isolator]
  const boxes: Box[] = []
  const ranges: number[] = []
  const pids: number[] = []
  let counter = 0

  function spec(changes: SpecChanges = {}): IsolatorSpec {
    counter += 1
    const sandboxId = changes.sandboxId ?? `box-${counter}`
    return {
      sandboxId,
      folder: join(folder, 'boxes', sandboxId),
      image: 'host',
      env: {},
      mounts: [],
      network: 'none',
      workdir: '/workspace',
      hostname: 'box',
      ...changes,
      limits: {
        memoryBytes: 256 * MiB,
        pids: 128,
        cpus: 2,
        shmBytes: 16 * MiB,
        openFiles: 4096,
        ...changes.limits,
      },
    }
  }

  async function start(changes?: SpecChanges): Promise<Box> {
    const wanted = spec(changes)
    mkdirSync(join(folder, 'boxes'), { recursive: true, mode: 0o700 })
    const sandbox = await isolator.start(wanted)
    const box = await open(wanted, sandbox)
    boxes.push(box)
    if (kind === 'root') ranges.push(box.firstId)
    pids.push(box.pids.shim, box.pids.runner)
    return box
  }

  function leftovers(): string[] {
    const found = pids.filter((pid) => isOurs(pid, folder, name)).map((pid) => `process ${pid}`)
    // The prepared shim does not count as a leftover.
    const isSpare = (text: string) =>
      [...text.matchAll(new RegExp(`/${name}/(\\d+)-`, 'g'))].some(([, pid]) => isSpareShim(pid!))
    for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
      const status = readOr(`/proc/${pid}/status`) ?? ''
      const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1])
      if (!/^State:\s+[ZX]/m.test(status) && ranges.some((first) => uid >= first && uid < first + 65536))
        found.push(`process ${pid} of a sandbox`)
      const groups = readOr(`/proc/${pid}/cgroup`) ?? ''
      if (isSpare(groups) || isSpareShim(pid)) continue
      if (groups.includes(`/${name}/`) && !/^State:\s+[ZX]/m.test(status))
        found.push(`process ${pid} in a group`)
      const mounts = readOr(`/proc/${pid}/mountinfo`) ?? ''
      if (mounts.includes(name) && !isSpareShim(/^PPid:\s+(\d+)/m.exec(status)?.[1] ?? ''))
        found.push(`a mount in process ${pid}`)
    }
    for (const root of groupRoots()) {
      for (const entry of entriesOf(join(root, name)))
        if (entry.isDirectory() && !isSpare(`/${name}/${entry.name}`))
          found.push(`group ${join(root, name, entry.name)}`)
    }
    for (const entry of entriesOf(runFolder))
      if (entry.isDirectory() && entry.name !== 'stage') found.push(`run folder ${entry.name}`)
    for (const entry of entriesOf(join(folder, 'ids'))) found.push(`ids ${entry.name}`)
    return found
  }

  function groups(): string[] {
    const all = groupRoots().flatMap((root) => entriesOf(join(root, name)))
    return [...new Set(all.filter((entry) => entry.isDirectory()).map((entry) => entry.name))]
  }

  function frozen({ pids }: Box): boolean {
    return groupRoots().some((root) => {
      const [group] = globSync(join(root, name, `${pids.shim}-*`))
      const state =
        group && (readOr(join(group, 'cgroup.freeze')) ?? readOr(join(group, 'freezer.self_freezing')))
      return state?.trim() === '1'
    })
  }

  async function closeAll(): Promise<void> {
    await Promise.all(isolators.map((one) => one.close()))
  }

  async function clear(): Promise<void> {
    for (const { spec, client } of boxes.splice(0)) {
      client.close()
      await isolator.remove(spec)
    }
  }

  function hostId({ firstId }: Box, inside: number): number {
    if (kind === 'root') return firstId + inside
    const { uid, firstUid = 0 } = thisAccount()
    return kind === 'own' ? uid : firstUid + inside
  }

  return {
    kind,
    users: kind === 'own' ? ['1000'] : ['1000', '0'],
    hostId,
    isolator,
    options,
    folder,
    another(changes) {
      const another = new OciIsolator({ ...options, ...changes })
      isolators.push(another)
      return another
    },
    spec,
    start,
    leftovers,
    groups,
    frozen,
    closeAll,
    clear,
    async [Symbol.asyncDispose]() {
      await clear()
      await closeAll()
      for (const root of groupRoots())
        if (kind === 'root' && existsSync(join(root, name))) rmdirSync(join(root, name))
      const delegated = kind === 'root' ? undefined : isolator.privileges.layout().v2?.root
      if (delegated !== undefined && existsSync(join(delegated, name))) rmdirSync(join(delegated, name))
      rmSync(runFolder, { recursive: true, force: true })
      const remover = new DiskRemover(
        isolator.privileges.command(options.runner, options.runner, 'tree', 'serve'),
      )
      await remover.remove(folder)
      await remover.close()
    },
  }
}

export async function open(spec: IsolatorSpec, sandbox: IsolatedSandbox): Promise<Box> {
  const client = await RunnerClient.connect(await sandbox.connect())
  const { pid, runnerPid } = JSON.parse(readFileSync(join(spec.folder, 'shim.json'), 'utf8'))
  let commands = 0
  return {
    spec,
    sandbox,
    client,
    pids: { shim: pid, runner: runnerPid },
    firstId: Number(readFileSync(join(spec.folder, 'range'), 'utf8')),
    async sh(script, options = {}) {
      commands += 1
      const id = `${process.pid}-${performance.now()}-${commands}`
      const result = await client.run({ id, argv: ['/bin/sh', '-c', script], ...options })
      const text = (bytes: Buffer) => bytes.toString('utf8').trim()
      return {
        out: text(result.stdout),
        err: text(result.stderr),
        code: result.exitCode,
        signal: result.signal,
      }
    },
  }
}

function isSpareShim(pid: string): boolean {
  return readOr(`/proc/${pid}/comm`)?.trim() === 'shim-spare'
}

/** Whether the process is alive and its pid was not reused. */
function isOurs(pid: number, folder: string, name: string): boolean {
  const status = readOr(`/proc/${pid}/status`)
  if (!status || /^State:\s+[ZX]/m.test(status)) return false
  const command = readOr(`/proc/${pid}/cmdline`) ?? ''
  return command.includes('runner') || command.includes(folder) || command.includes(name)
}

function groupRoots(): string[] {
  const { v1, v2 } = layoutOfThisMachine()
  return [...new Set([...Object.values(v1), ...(v2 ? [v2.root] : [])])]
}

function entriesOf(folder: string) {
  return existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : []
}

export function readOr(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
