import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { readJson, writeAtomically } from '../layers/atomic-file.ts'
import type { ControlConnection } from './control.ts'
import type { Authority } from './wire.ts'

/**
 * Certificate authorities of sandboxes. Each is made once, beside the record: never on the disk, never in a snapshot.
 * The next sandbox's is made when a sandbox has started, because making one takes a twentieth of a create.
 */
export class Authorities {
  #next: Promise<Authority> | undefined

  /** The authority of the sandbox with this folder. Calls for different folders may interleave. */
  async in(folder: string, connection: ControlConnection): Promise<Authority> {
    const file = path.join(folder, 'authority.json')
    const known = readJson<Authority>(file)
    if (known) return known
    const prepared = this.#next
    // No two sandboxes may have the same.
    this.#next = undefined
    const made = (await prepared?.catch(() => undefined)) ?? (await make(connection))
    await writeAtomically(file, made, { durable: false })
    return made
  }

  /** Makes one for the next sandbox, in the background. If that fails, the next call of `in` asks again. */
  prepare(connection: ControlConnection): void {
    this.#next ??= make(connection)
    this.#next.catch(() => {})
  }
}

async function make(connection: ControlConnection): Promise<Authority> {
  const { cert, key } = await connection.request('ca')
  if (typeof cert !== 'string' || typeof key !== 'string')
    throw new SandboxError('unavailable', 'The gateway made no certificate authority.')
  return { cert, key }
}
