import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { refuseLogin } from '../../core/login.ts'
import type { SandboxRecord } from '../../folder/record.ts'
import { randomId } from '../../shared/ids.ts'
import type {
  CallOptions,
  OpenShellOptions,
  OpenTerminalOptions,
  SandboxInfo,
  SandboxShell,
  SandboxTerminal,
} from '../../spec/index.ts'
import type { LocalDriver } from './driver.ts'
import { LocalFiles } from './files.ts'
import { confine } from './paths.ts'
import type { LocalProcesses } from './process.ts'
import { baseEnvironment, foldersOf, sandboxMarker } from './programs/environment.ts'
import { LocalShell } from './shell.ts'
import { LocalTerminal } from './terminal.ts'

/** A handle's view of one incarnation of a local sandbox. */
export class LocalSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly writablePaths: readonly string[]
  readonly ports: readonly number[]
  readonly files: LocalFiles
  readonly folder: string
  readonly #driver: LocalDriver
  readonly #folders: ReturnType<typeof foldersOf>
  readonly #processes: LocalProcesses
  readonly #shells: Map<string, LocalShell>
  readonly #terminals: Map<string, LocalTerminal>
  #incarnation: string

  constructor(driver: LocalDriver, folder: string, record: SandboxRecord) {
    this.#driver = driver
    this.folder = folder
    this.sandboxId = record.sandboxId
    if (record.name !== undefined) this.name = record.name
    this.ports = record.ports ?? []
    this.#incarnation = record.incarnation
    this.#folders = foldersOf(folder)
    this.workdir = this.#folders.workspace
    this.writablePaths = [this.workdir]
    this.files = new LocalFiles({
      root: this.workdir,
      partial: this.#folders.partial,
      check: () => this.check(),
    })
    const open = driver.openThings(this.sandboxId)
    this.#processes = open.processes
    this.#shells = open.shells
    this.#terminals = open.terminals
  }

  /** Returns the record, or throws if this handle may not use the sandbox. */
  check(): Promise<SandboxRecord> {
    return this.#driver.check(this.sandboxId, this.#incarnation)
  }

  async info(): Promise<SandboxInfo> {
    return this.#driver.info(this.sandboxId)
  }

  async spawn(spec: ProcessSpec): Promise<ProcessDriver> {
    return this.#processes.spawn(spec, await this.#place(spec.cwd, spec.env))
  }

  async getProcess(execId: string): Promise<ProcessDriver> {
    await this.check()
    return this.#processes.get(execId)
  }

  async listProcesses() {
    await this.check()
    return this.#processes.list()
  }

  async openShell(options: Checked<OpenShellOptions>): Promise<SandboxShell> {
    refuseLogin(options, 'local')
    const place = await this.#place(options.cwd, options.env ?? {})
    const name = options.name ?? `shell-${randomId(8)}`
    const open = this.#shells.get(name)
    if (open && !open.closed) return open
    const marker = `${this.sandboxId}/${place.incarnation}/${name}`
    const shell = new LocalShell({
      name,
      marker,
      ...place,
      folder: path.join(this.#folders.partial, randomId()),
      onClose: () => this.#shells.delete(name),
    })
    // Added before the shell runs, so that a concurrent call gets the same shell.
    this.#shells.set(name, shell)
    await shell.ready()
    return shell
  }

  async openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
  ): Promise<SandboxTerminal> {
    const place = await this.#place(options.cwd, { TERM: 'xterm-256color', ...options.env })
    const terminalId = options.terminalId ?? `terminal-${randomId(8)}`
    const open = this.#terminals.get(terminalId)
    if (open) return open
    const marker = `${this.sandboxId}/${place.incarnation}/${terminalId}`
    const { cols, rows } = options
    const [cmd, args] = options.cmd === undefined ? [loginShell(), []] : [options.cmd, options.args ?? []]
    const terminal = await LocalTerminal.open({ terminalId, marker, cmd, args, cols, rows, ...place })
    this.#terminals.set(terminalId, terminal)
    terminal.ended.then(() => this.#terminals.delete(terminalId))
    return terminal
  }

  async getEndpoint(port: number) {
    await this.check()
    return { url: `http://127.0.0.1:${port}`, headers: {} }
  }

  async stop(): Promise<void> {
    await this.#driver.stop(this.sandboxId, this.#incarnation)
  }

  async start(): Promise<void> {
    this.#incarnation = (await this.#driver.start(this.sandboxId)).incarnation
  }

  async snapshot(name: string | undefined) {
    return this.#driver.snapshots.take(await this.check(), this.workdir, name)
  }

  async fork(count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>> {
    const { snapshotId } = await this.snapshot(undefined)
    const { labels, envVars, label, lifetimeMs, ports } = await this.check()
    const spec = { labels, envVars, snapshotId, deferReady: false, label, lifetimeMs, ports }
    try {
      const forks = await Promise.allSettled(
        Array.from({ length: count }, () => this.#driver.create(spec, call)),
      )
      return forks.map((fork) => (fork.status === 'fulfilled' ? fork.value : (fork.reason as Error)))
    } finally {
      await this.#driver.snapshots.delete(snapshotId)
    }
  }

  async extendTimeout(ms: number): Promise<void> {
    await this.check()
    await this.#driver.extend(this.sandboxId, ms)
  }

  async ready(): Promise<void> {
    await this.#driver.ready(this.sandboxId)
  }

  async destroy(): Promise<boolean> {
    return this.#driver.destroy(this.sandboxId)
  }

  /** The folder and environment of a program. Recreates private folders that a program has removed. */
  async #place(cwd: string | undefined, env: Readonly<Record<string, string>>) {
    const record = await this.check()
    const { home, tmp, partial } = this.#folders
    for (const folder of [home, tmp, partial])
      if (!existsSync(folder)) await mkdir(folder, { recursive: true, mode: 0o700 })
    const base = baseEnvironment({ home, tmp, inherit: this.#driver.inheritEnv })
    return {
      cwd: cwd === undefined ? this.workdir : await confine(this.workdir, cwd, { follow: true }),
      env: { ...base, ...record.envVars, ...env, [sandboxMarker]: this.sandboxId },
      incarnation: record.incarnation,
    }
  }
}

function loginShell(): string {
  return existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh'
}
