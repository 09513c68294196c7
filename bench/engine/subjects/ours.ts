/** `EngineProvider` with the isolator `oci`, as a user gets it, in folders and control groups of this run only. */
import { copyFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { EngineProvider, type EngineProviderOptions, locateRunner } from '@sandkasten/engine'
import type { CreateSandboxOpts } from '@sandkasten/sdk'
import { timed } from '../../measure.ts'
import { assertGoingOn } from '../../stop.ts'
import { type Remains, remainsOf } from '../remains.ts'
import { end, folderIn, processes, readOr, type Workplace } from '../workplace.ts'
import { assertHardened, type Box, COMMAND, type Subject } from './subject.ts'

export type Sandbox = Awaited<ReturnType<EngineProvider['create']>>

export interface Ours extends Subject {
  readonly place: Workplace
  readonly rootfs: string
  /** For another process that uses the same sandboxes. */
  readonly engine: EngineProviderOptions
  create(options?: CreateSandboxOpts): Promise<Sandbox>
  get(sandboxId: string): Promise<Sandbox>
  deleteSnapshot(snapshotId: string): Promise<unknown>
  command(sandbox: Sandbox): Promise<void>
  /** Destroys the sandbox and asserts that nothing is left. Returns the milliseconds of the destroy alone. */
  destroy(sandbox: Sandbox): Promise<number>
  /** For destroying many concurrently: call it before, and check the result after. */
  remainsOf(sandbox: Sandbox): Remains
}

const IDS_FOLDER = '/var/lib/sandkasten/ids'

/** With another runtime it is another subject with another name. */
export async function openOurs(
  place: Workplace,
  rootfs: string,
  { name = 'engine', runtime }: { name?: string; runtime?: string } = {},
): Promise<Ours> {
  const root = folderIn(place, name)
  // Sockets need a short path. The id ranges are the machine's own, so that no other sandbox gets the same ids.
  const runFolder = join('/run', place.name, ...(runtime ? [name] : []))
  // A copy, because the binary may be rebuilt during the measurement.
  const runner = join(place.folder, `runner-${name}`)
  copyFileSync(await locateRunner(), runner)
  const engine: EngineProviderOptions = {
    isolator: 'oci',
    root,
    oci: {
      runFolder,
      imagesFolder: join(place.folder, 'images'),
      cgroupParent: place.group,
      runner,
      runtime,
    },
  }
  const provider = new EngineProvider(engine)
  place.cleanup.add(`sandboxes of ${name}`, async () => {
    try {
      for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
      await provider.close()
    } finally {
      // Also after a failure. A shim mounts its stage there in its own namespace, which identifies it.
      const stage = `${runFolder}/`
      await end(() =>
        processes().filter((pid) => pid !== process.pid && readOr(`/proc/${pid}/mountinfo`)?.includes(stage)),
      )
      rmSync(runFolder, { recursive: true, force: true })
      freeIds(root)
    }
  })

  async function create(options: CreateSandboxOpts = {}): Promise<Sandbox> {
    assertGoingOn()
    return provider.create(options)
  }

  async function command(sandbox: Sandbox): Promise<void> {
    const [cmd, ...args] = COMMAND
    const { exitCode, stderr } = await sandbox.runCommand({ cmd, args })
    if (exitCode !== 0) throw new Error(`exit code ${exitCode}: ${stderr}`)
  }

  const remains = ({ sandboxId }: Sandbox) =>
    remainsOf({ sandboxId, folder: join(root, 'sandboxes', sandboxId), runFolder, group: place.group })

  async function destroy(sandbox: Sandbox): Promise<number> {
    const { assertNone } = remains(sandbox)
    const ms = await timed(() => sandbox.destroy())
    assertNone()
    return ms
  }

  async function cold(): Promise<{ ms: number; box: Box }> {
    let sandbox: Sandbox | undefined
    const ms = await timed(async () => {
      sandbox = await create()
      await command(sandbox)
    })
    const made = sandbox!
    return { ms, box: { command: () => timed(() => command(made)), destroy: () => destroy(made) } }
  }

  // The first create also builds the image `host`.
  const first = await create()
  const { stdout } = await first.runCommand({ cmd: 'cat', args: ['/proc/self/status'] })
  assertHardened(name, stdout, { ownKernel: provider.isolation === 'gvisor' })
  await destroy(first)
  const deleteSnapshot = (snapshotId: string) => provider.deleteSnapshot(snapshotId)
  const get = (sandboxId: string) => provider.get(sandboxId)
  return {
    ...{ name, place, rootfs, engine, create, get, command, destroy, cold, deleteSnapshot },
    remainsOf: remains,
  }
}

function freeIds(root: string): void {
  let entries: string[] = []
  try {
    entries = readdirSync(IDS_FOLDER)
  } catch {
    return
  }
  for (const entry of entries) {
    const file = join(IDS_FOLDER, entry)
    try {
      if (readlinkSync(file).startsWith(`${root}/`)) rmSync(file, { force: true })
    } catch {
      // Freed meanwhile.
    }
  }
}
