import { mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import type { ProcessDriver, ProcessSpec } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { errnoOf, guarded, translate } from '../../folder/errors.ts'
import { randomId } from '../../shared/ids.ts'
import type { ProcessExit, ProcessInfo, ProcessSignal, ProcessStatus } from '../../spec/index.ts'
import { type DetachedProcess, findDetached, startDetached } from './detached/process.ts'
import { Child, type ChildSpec } from './programs/child.ts'
import { sandboxMarker } from './programs/environment.ts'
import { killTree } from './programs/process-tree.ts'

/**
 * The processes of one sandbox. Attached ones live in this object. Detached ones have a folder each, and any process can
 * find them. A new object for the same sandbox knows only the detached ones.
 */
export class LocalProcesses {
  readonly #sandboxId: string
  readonly #sandboxFolder: string
  readonly #folder: string
  readonly #attached = new Map<string, Promise<AttachedProcess>>()

  constructor(options: { sandboxId: string; sandboxFolder: string; folder: string }) {
    this.#sandboxId = options.sandboxId
    this.#sandboxFolder = options.sandboxFolder
    this.#folder = options.folder
  }

  async spawn(
    spec: ProcessSpec,
    place: { cwd: string; env: Record<string, string>; incarnation: string },
  ): Promise<ProcessDriver> {
    const execId = spec.execId ?? randomId()
    const existing = spec.execId === undefined ? undefined : await this.find(execId)
    if (existing) return existing
    const child: ChildSpec = {
      marker: `${this.#sandboxId}/${place.incarnation}/${execId}`,
      cmd: spec.cmd,
      args: spec.args,
      cwd: place.cwd,
      env: { ...place.env, [sandboxMarker]: this.#sandboxId },
      stdin: spec.stdin !== 'empty',
      merged: spec.merged,
      outputBufferBytes: spec.outputBufferBytes,
      timeoutMs: spec.timeoutMs,
    }
    const process = spec.detached
      ? await this.#startDetached(execId, child, place.incarnation)
      : await this.#startAttached(execId, child)
    if (typeof spec.stdin !== 'string') void feed(process, spec.stdin)
    return process
  }

  async find(execId: string): Promise<ProcessDriver | undefined> {
    const attached = this.#attached.get(execId)
    if (attached) return attached
    return this.#findDetached(execId)
  }

  async get(execId: string): Promise<ProcessDriver> {
    const process = await this.find(execId)
    if (process) return process
    throw new SandboxError('not_found', `The process ${execId} does not exist in this sandbox.`, {
      provider: 'local',
      sandboxId: this.#sandboxId,
      hint: {
        sdk: 'See listProcesses(). Only processes started with detached: true are found from another process.',
        http: 'See GET /v1/sessions/{id}/execs.',
        cli: 'See sandkasten commands list.',
      },
    })
  }

  async list(): Promise<ProcessInfo[]> {
    const attached = await Promise.all(this.#attached.values())
    const infos = [
      ...attached.map(async (process) => ({ ...process.info, ...(await process.status()) })),
      ...(await this.#allDetached()).map(infoOf),
    ]
    return (await Promise.all(infos)).sort((a, b) => a.startedAt!.getTime() - b.startedAt!.getTime())
  }

  /** Kills all processes of this sandbox, and resolves when they have ended. */
  async stopAll(): Promise<void> {
    await killTree({ marker: { name: sandboxMarker, value: this.#sandboxId } })
    const attached = await Promise.allSettled(this.#attached.values())
    const ends = attached.map(async (start) => {
      if (start.status === 'rejected') return
      await start.value.kill('SIGKILL')
      await start.value.child.log.ended
    })
    const detached = (await this.#allDetached()).map(async (process) => {
      await process.kill('SIGKILL')
      await process.dismiss()
    })
    await Promise.allSettled([...ends, ...detached])
  }

  async #allDetached(): Promise<DetachedProcess[]> {
    const ids = await readdir(this.#folder).catch((error) => {
      if (errnoOf(error) === 'ENOENT') return []
      throw translate(error, 'The processes cannot be listed')
    })
    const found = await Promise.all(ids.map((id) => this.#findDetached(id)))
    return found.filter((process) => process !== undefined)
  }

  async #findDetached(execId: string): Promise<DetachedProcess | undefined> {
    return findDetached(path.join(this.#folder, execId))
  }

  #startAttached(execId: string, spec: ChildSpec): Promise<AttachedProcess> {
    // Added before the program runs, so that a concurrent spawn with the same id gets this process.
    const earlier = this.#attached.get(execId)
    if (earlier) return earlier
    const start = Child.start(spec).then((child) => new AttachedProcess(execId, child, spec))
    this.#attached.set(execId, start)
    start.then(
      (process) => process.child.log.ended.then(() => this.#forgetOldest()),
      () => this.#attached.delete(execId),
    )
    return start
  }

  /** Keeps a limited number of ended processes for late readers. */
  async #forgetOldest(): Promise<void> {
    for (const [id, start] of this.#attached) {
      if (this.#attached.size <= maxKept) return
      const process = await start.catch(() => undefined)
      if (!process?.child.running) this.#attached.delete(id)
    }
  }

  async #startDetached(execId: string, spec: ChildSpec, incarnation: string): Promise<ProcessDriver> {
    const folder = path.join(this.#folder, execId)
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await mkdir(folder, { mode: 0o700 })
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return this.#await(execId)
      throw translate(error, 'The process’s folder cannot be created')
    }
    try {
      return await startDetached({
        ...spec,
        folder,
        sandboxFolder: this.#sandboxFolder,
        incarnation,
        startedAt: Date.now(),
      })
    } catch (error) {
      await guarded('The process’s folder cannot be removed', () =>
        rm(folder, { recursive: true, force: true }),
      )
      throw error
    }
  }

  /** Waits for another caller that is starting the process with this id. */
  async #await(execId: string): Promise<ProcessDriver> {
    for (let tries = 0; tries < 1000; tries += 1) {
      const process = await this.#findDetached(execId)
      if (process) return process
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    throw new SandboxError(
      'conflict',
      `The process ${execId} is being started by another caller, which did not finish in time.`,
      { hint: 'Choose another id.' },
    )
  }
}

const maxKept = 64

export function statusOf({ log }: Child): ProcessStatus {
  if (!log.exit) return { running: true }
  const { seq: _, type: __, ...exit } = log.exit
  return { running: false, exit }
}

class AttachedProcess implements ProcessDriver {
  readonly execId: string
  readonly pid: number
  readonly child: Child
  readonly info: { execId: string; cmd: string; args: readonly string[]; startedAt: Date }

  constructor(execId: string, child: Child, { cmd, args }: ChildSpec) {
    this.execId = execId
    this.pid = child.pid
    this.child = child
    this.info = { execId, cmd, args, startedAt: new Date() }
  }

  events(after: number, signal?: AbortSignal) {
    return this.child.log.read(after, signal)
  }

  kill(signal: ProcessSignal): Promise<boolean> {
    return this.child.kill(signal)
  }

  async status(): Promise<ProcessStatus> {
    return statusOf(this.child)
  }

  get whenEnded(): Promise<void> {
    return this.child.log.ended
  }

  async waitForExit(): Promise<ProcessExit> {
    await this.whenEnded
    return statusOf(this.child).exit!
  }

  write(data: Uint8Array): Promise<void> {
    return this.child.write(data)
  }

  async closeStdin(): Promise<void> {
    this.child.closeStdin()
  }
}

async function infoOf(process: DetachedProcess): Promise<ProcessInfo> {
  const { cmd, args, startedAt } = process.record
  return { execId: process.execId, cmd, args, startedAt: new Date(startedAt), ...(await process.status()) }
}

/** Sends all chunks, then end-of-file. It is not an error if the program does not read them. */
async function feed(process: ProcessDriver, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const chunk of chunks) await process.write!(chunk, {})
  } catch (error) {
    // The source failed: kill the program, so that it does not treat partial input as complete.
    if (!SandboxError.is(error, 'stdin_closed')) await process.kill('SIGKILL', {}).catch(() => {})
  }
  await process.closeStdin!({}).catch(() => {})
}
