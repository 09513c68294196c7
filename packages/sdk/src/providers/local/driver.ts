import { mkdir } from 'node:fs/promises'
import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import { FolderDriver } from '../../folder/driver.ts'
import { guarded } from '../../folder/errors.ts'
import { needHostRuntime } from '../../folder/host-programs.ts'
import type { SandboxRecord } from '../../folder/record.ts'
import type { CreateOption } from '../../spec/index.ts'
import type { LocalCapabilities } from './capabilities.ts'
import { LocalProcesses } from './process.ts'
import { baseEnvironment, foldersOf } from './programs/environment.ts'
import { LocalSandbox } from './sandbox.ts'
import type { LocalShell } from './shell.ts'
import { LocalSnapshots } from './snapshots.ts'
import type { LocalTerminal } from './terminal.ts'

/** Local sandboxes. There is nothing to boot, and programs are child processes. */
export class LocalDriver
  extends FolderDriver<LocalCapabilities>
  implements ProviderDriver<LocalCapabilities>
{
  readonly name: string
  readonly isolation = 'none'
  readonly capabilities: LocalCapabilities
  readonly inheritEnv: readonly string[]
  readonly createOptions: readonly CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'lifetimeMs',
    'snapshotId',
    'runtime',
    'ports',
    'repo',
    'gitToken',
  ]
  /** A snapshot copies files while programs run. */
  readonly snapshotInterrupts = false
  readonly #open = new Map<string, OpenThings>()

  constructor(options: {
    name: string
    root: string
    inheritEnv: readonly string[]
    capabilities: LocalCapabilities
  }) {
    super(options.root)
    this.name = options.name
    this.inheritEnv = options.inheritEnv
    this.capabilities = options.capabilities
  }

  get snapshots(): LocalSnapshots {
    return new LocalSnapshots(this.root)
  }

  async listSnapshots() {
    await this.prepare()
    return this.snapshots.list()
  }

  async deleteSnapshot(snapshotId: string) {
    await this.prepare()
    return this.snapshots.delete(snapshotId)
  }

  /** State shared by this provider's handles of one sandbox. */
  openThings(sandboxId: string): OpenThings {
    let things = this.#open.get(sandboxId)
    if (!things) {
      const sandboxFolder = this.folderOf(sandboxId)
      const folder = foldersOf(sandboxFolder).processes
      const processes = new LocalProcesses({ sandboxId, sandboxFolder, folder })
      things = { processes, shells: new Map(), terminals: new Map() }
      this.#open.set(sandboxId, things)
    }
    return things
  }

  protected override async plan({ runtime }: CreateSpec): Promise<undefined> {
    if (runtime === undefined) return
    const { PATH = '' } = baseEnvironment({ home: '', tmp: '', inherit: this.inheritEnv })
    await needHostRuntime(this.name, runtime, { path: PATH })
  }

  protected override async fill(
    folder: string,
    _record: SandboxRecord,
    { snapshotId }: CreateSpec,
  ): Promise<void> {
    const { workspace, home, tmp, partial, processes } = foldersOf(folder)
    if (snapshotId !== undefined) await this.snapshots.restore(snapshotId, workspace)
    await guarded('The sandbox’s folders could not be created', async () => {
      for (const each of [workspace, home, tmp, partial, processes])
        await mkdir(each, { recursive: true, mode: 0o700 })
    })
  }

  protected async boot(): Promise<void> {}

  protected async lives(): Promise<boolean> {
    return true
  }

  protected async halt(_folder: string, { sandboxId }: SandboxRecord): Promise<void> {
    const { processes, shells, terminals } = this.openThings(sandboxId)
    await processes.stopAll()
    for (const shell of shells.values()) await shell.close()
    for (const terminal of terminals.values()) await terminal.kill('SIGKILL')
    this.#open.delete(sandboxId)
  }

  protected handle(folder: string, record: SandboxRecord): LocalSandbox {
    return new LocalSandbox(this, folder, record)
  }
}

interface OpenThings {
  readonly processes: LocalProcesses
  readonly shells: Map<string, LocalShell>
  readonly terminals: Map<string, LocalTerminal>
}
