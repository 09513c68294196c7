import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { providerKinds } from '@sandkasten/sdk/auto'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { expect } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { openRegistry, type Registry, type SandboxRecord } from '../../packages/registry/src/index.ts'

export const secret = 'sk-value-of-a-variable'

/** A process that is killed, or kills itself. */
export interface Killed {
  readonly process: ChildProcess
  /** Resolves when it has printed this. Rejects if it ends first. */
  printed(text: string): Promise<void>
  /** Hands it its task. */
  begin(task: object): void
  /** Its end, as an exit code or a signal, and everything that it printed. */
  readonly ended: Promise<{ end: number | string; output: string }>
}

/** A daemon, and a registry that uses it from several processes. */
export class KillWorld {
  readonly dataDir: string
  readonly provider: DaemonProvider
  readonly #daemon: TestDaemon
  readonly #children = new Set<ChildProcess>()

  private constructor(daemon: TestDaemon, dataDir: string) {
    this.#daemon = daemon
    this.dataDir = dataDir
    this.provider = new DaemonProvider({ url: daemon.daemon.url, apiKey: daemon.key })
  }

  static async start(): Promise<KillWorld> {
    const daemon = await startTestDaemon({ quotas: { snapshots: 10_000 } })
    const world = new KillWorld(daemon, await mkdtemp(path.join(tmpdir(), 'sk-kills-')))
    await using registry = await world.open()
    await registry.credentials.setup('daemon', { url: daemon.daemon.url, apiKey: daemon.key })
    return world
  }

  async stop(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL')
    await this.#daemon.stop()
    await rm(this.dataDir, { recursive: true, force: true })
  }

  open(): Promise<Registry> {
    const kinds = providerKinds.filter(({ provider }) => provider === 'daemon')
    return openRegistry({ dataDir: this.dataDir, kinds, env: {} })
  }

  /** Starts a process, which loads its program and waits for its task. */
  spawn(program: string): Killed {
    const script = path.join(import.meta.dirname, program)
    const child = spawn(process.execPath, ['--conditions=sandkasten-source', '--no-warnings', script], {
      stdio: 'pipe',
      env: { PATH: process.env.PATH },
    })
    this.#children.add(child)
    child.stdin.on('error', () => {})
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (data) => {
        output += String(data)
      })
    const ended = once(child, 'close').then(([code, signal]) => {
      this.#children.delete(child)
      return { end: (code ?? signal) as number | string, output }
    })
    return {
      process: child,
      ended,
      begin: (task) => void child.stdin.end(JSON.stringify(task)),
      async printed(text) {
        while (!output.includes(text)) {
          const next = Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data')])
          const over = await Promise.race([next.then(() => false), ended.then(() => true)])
          if (over && !output.includes(text)) throw new Error(`It ended by itself: ${output}`)
        }
      },
    }
  }

  /**
   * Does what the next process does after kills, and returns all rows: every row is explained, every sandbox has a row,
   * and every sandbox that must exist does.
   */
  async recover(registry: Registry, mustExist: readonly string[]): Promise<SandboxRecord[]> {
    // Operations of dead processes are due at once. Afterwards no row is without an explanation.
    expect(await registry.doDueWork()).toMatchObject({ failed: [] })
    for (const row of await registry.in().list()) expectExplained(row)
    // A listing shows what no process wrote down. A request that a dead process had sent can still be at work.
    let rows: SandboxRecord[] = []
    await expect
      .poll(async () => {
        expect(await registry.reconcile()).toMatchObject({ failed: [], unreachable: [] })
        rows = await registry.in().list()
        const ids = rows.flatMap(({ providerSandboxId }) => providerSandboxId ?? [])
        const there = (await this.provider.list()).filter(({ status }) => status !== 'destroyed')
        return difference(
          there.map(({ sandboxId }) => sandboxId),
          ids,
        )
      })
      .toEqual([])
    for (const row of rows) expectExplained(row)
    expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining([...mustExist]))
    await this.#expectNoSecret()
    return rows
  }

  async #expectNoSecret(): Promise<void> {
    const folder = path.join(this.dataDir, 'registry')
    for (const file of await readdir(folder)) {
      const bytes = await readFile(path.join(folder, file), 'latin1')
      this.expectNoSecretIn(bytes, file)
    }
  }

  expectNoSecretIn(text: string, where: string): void {
    expect(text.includes(secret), where).toBe(false)
    expect(text.includes(this.#daemon.key), where).toBe(false)
  }
}

/** What the file of the sandbox has, or why it cannot be read now: a late request may have stopped the sandbox again. */
export async function readFileOf(registry: Registry, name: string): Promise<string> {
  const { handle } = await registry.in().resume(name)
  return handle.files.readFile('file', 'utf8').catch((error: unknown) => {
    if (SandboxError.is(error, 'not_running', 'interrupted')) return error.code
    throw error
  })
}

function expectExplained(row: SandboxRecord): void {
  expect(['running', 'paused', 'stopped', 'failed'], row.name).toContain(row.status)
  if (row.status === 'failed') expect(row.errorMessage, row.name).toMatch(/\w/)
  if (row.status === 'running') expect(row.providerSandboxId, row.name).toBeDefined()
}

/** Sandboxes without a row, and rows without a sandbox. */
function difference(there: readonly string[], ids: readonly string[]): string[] {
  return [...there.filter((id) => !ids.includes(id)), ...ids.filter((id) => !there.includes(id))]
}
