import { constants } from 'node:fs'
import { cp, lstat, mkdir, readdir, readFile, rename } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '../../errors.ts'
import { errnoOf, guarded } from '../../folder/errors.ts'
import { replaceFile, type SandboxRecord } from '../../folder/record.ts'
import { removeFolder } from '../../folder/remove.ts'
import { randomId } from '../../shared/ids.ts'
import type { SnapshotInfo } from '../../spec/index.ts'

/**
 * Saved workspaces. Each snapshot is a folder that is renamed into place when it is complete. Copies share blocks if the file
 * system supports reflinks. Concurrent writes of running programs may or may not be included.
 */
export class LocalSnapshots {
  readonly #root: string

  constructor(root: string) {
    this.#root = path.join(root, 'snapshots')
  }

  async take(
    { sandboxId }: SandboxRecord,
    workspace: string,
    name: string | undefined,
  ): Promise<{ snapshotId: string }> {
    const snapshotId = randomId()
    const partial = path.join(this.#root, `.${snapshotId}`)
    await guarded('The snapshot could not be created', async () => {
      await mkdir(partial, { recursive: true, mode: 0o700 })
      try {
        const sizeBytes = await copyTree(workspace, path.join(partial, 'workspace'))
        const info = {
          snapshotId,
          sandboxId,
          createdAt: Date.now(),
          sizeBytes,
          name,
        }
        await replaceFile(path.join(partial, 'snapshot.json'), JSON.stringify(info))
        await rename(partial, path.join(this.#root, snapshotId))
      } catch (error) {
        await removeFolder(partial)
        throw error
      }
    })
    return { snapshotId }
  }

  async restore(snapshotId: string, workspace: string): Promise<void> {
    if (!(await this.#read(snapshotId))) {
      throw new SandboxError('not_found', `The snapshot ${snapshotId} does not exist.`, {
        provider: 'local',
        hint: {
          sdk: 'See provider.listSnapshots().',
          http: 'See GET /v1/snapshots.',
          cli: 'See sandkasten snapshot list.',
        },
      })
    }
    await guarded('The snapshot could not be restored', () =>
      copyTree(path.join(this.#root, snapshotId, 'workspace'), workspace),
    )
  }

  async list(): Promise<SnapshotInfo[]> {
    const names = await readdir(this.#root).catch(missing)
    const infos = await Promise.all(
      (names ?? []).filter((name) => !name.startsWith('.')).map((name) => this.#read(name)),
    )
    return infos
      .filter((info) => info !== undefined)
      .sort((a, b) => a.createdAt!.getTime() - b.createdAt!.getTime())
  }

  async delete(snapshotId: string): Promise<boolean> {
    if (!(await this.#read(snapshotId))) return false
    const trash = path.join(this.#root, `.${randomId()}`)
    return guarded(`The snapshot ${snapshotId} could not be deleted`, async () => {
      // Of two concurrent deletes, only one rename succeeds.
      if ((await rename(path.join(this.#root, snapshotId), trash).then(() => true, missing)) !== true)
        return false
      await removeFolder(trash)
      return true
    })
  }

  async #read(snapshotId: string): Promise<SnapshotInfo | undefined> {
    if (!/^[a-z2-7]+$/.test(snapshotId)) return undefined
    const text = await readFile(path.join(this.#root, snapshotId, 'snapshot.json'), 'utf8').catch(missing)
    if (text === undefined) return undefined
    const info = JSON.parse(text) as Omit<SnapshotInfo, 'createdAt'> & { createdAt: number }
    return { ...info, createdAt: new Date(info.createdAt) }
  }
}

/** Copies files, folders and links with modes and times. Skips sockets, pipes and devices. Returns the bytes. */
async function copyTree(from: string, to: string): Promise<number> {
  let bytes = 0
  await cp(from, to, {
    recursive: true,
    verbatimSymlinks: true,
    preserveTimestamps: true,
    mode: constants.COPYFILE_FICLONE,
    filter: async (source) => {
      const facts = await lstat(source)
      if (facts.isFile()) bytes += facts.size
      return facts.isFile() || facts.isDirectory() || facts.isSymbolicLink()
    },
  })
  return bytes
}

function missing(error: unknown): undefined {
  if (errnoOf(error) !== 'ENOENT') throw error
}
