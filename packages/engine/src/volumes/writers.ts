import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { identityOf, type ProcessIdentity, withLock } from '@sandkasten/sdk/internal'
import { readJson, writeAtomically } from '../layers/atomic-file.ts'
import type { VolumeUsers } from './volumes.ts'

/** The incarnation that may write to a volume, and the process that starts it. */
export interface WriterClaim {
  readonly sandboxId: string
  readonly incarnation: string
  readonly by: ProcessIdentity
}

/**
 * One writer at a time. The claim is a file in the volume, written before the sandbox starts and removed after its
 * end. The claim of a dead sandbox is taken over. The check for that runs without the lock, because it may stop that
 * sandbox, which then releases its claims.
 */
export class WriterClaims {
  readonly #folderOf: (volume: string) => string
  readonly #users: VolumeUsers

  constructor(folderOf: (volume: string) => string, users: VolumeUsers) {
    this.#folderOf = folderOf
    this.#users = users
  }

  async of(volume: string): Promise<string | undefined> {
    const claim = this.#read(volume)
    return claim && (await this.#users.lives(claim)) ? claim.sandboxId : undefined
  }

  async take(volume: string, sandboxId: string, incarnation: string): Promise<void> {
    const mine: WriterClaim = { sandboxId, incarnation, by: await identityOf(process.pid) }
    for (;;) {
      const found = this.#read(volume)
      if (found && found.sandboxId !== sandboxId && (await this.#users.lives(found)))
        throw new SandboxError(
          'conflict',
          `The sandbox ${found.sandboxId} writes to the volume “${volume}”.`,
          {
            sandboxId,
            details: { volume, writer: found.sandboxId },
            hint: 'Stop that sandbox first, or mount the volume read-only.',
          },
        )
      const taken = await this.#locked(volume, async () => {
        if (JSON.stringify(this.#read(volume)) !== JSON.stringify(found)) return false
        await writeAtomically(this.#file(volume), mine, { durable: false })
        return true
      })
      if (taken) return
    }
  }

  async giveUp(volume: string, sandboxId: string): Promise<void> {
    if (this.#read(volume)?.sandboxId !== sandboxId) return
    const giveUp = async () => {
      if (this.#read(volume)?.sandboxId === sandboxId) rmSync(this.#file(volume), { force: true })
    }
    await this.#locked(volume, giveUp).catch((error) => {
      // A disk without space for a lock has no space for another claim either.
      if (SandboxError.is(error, 'disk_full')) return giveUp()
      throw error
    })
  }

  #read(volume: string): WriterClaim | undefined {
    return readJson<WriterClaim>(this.#file(volume))
  }

  #file(volume: string): string {
    return path.join(this.#folderOf(volume), 'writer.json')
  }

  #locked<T>(volume: string, work: () => Promise<T>): Promise<T> {
    mkdirSync(this.#folderOf(volume), { recursive: true, mode: 0o700 })
    return withLock(path.join(this.#folderOf(volume), 'lock'), work)
  }
}
