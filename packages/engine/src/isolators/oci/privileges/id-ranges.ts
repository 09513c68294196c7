import { mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'

/**
 * A range of user and group ids for each sandbox, so that its users exist neither on the host nor in another sandbox.
 * A range is kept as long as the sandbox's disk, whose files belong to it.
 *
 * Each range is a link in one folder of the whole machine. Creating a link is atomic, so two processes with unrelated
 * state folders never get the same range. The link leads to the folder of the sandbox that owns the range.
 *
 * systemd lets containers use 0x10000000–0x6fffffff: above every real user and the usual ranges of `/etc/subuid`, and
 * below 2^31, where some programs fail.
 */
export const RANGE_SIZE = 65536

export interface IdRangeOptions {
  /** One folder per machine. */
  readonly folder: string
  readonly first: number
  readonly last: number
}

export const defaultIdRanges: IdRangeOptions = {
  folder: '/var/lib/sandkasten/ids',
  first: 0x10000000,
  last: 0x6fffffff,
}

export class IdRanges {
  private readonly options: IdRangeOptions
  private readonly count: number
  private next: number

  constructor(options: IdRangeOptions = defaultIdRanges) {
    this.options = options
    this.count = Math.floor((options.last - options.first + 1) / RANGE_SIZE)
    if (options.first < RANGE_SIZE || options.last > 0xfffffffe || this.count < 1) {
      throw new SandboxError(
        'invalid_argument',
        'ids: must be a range above 65535 and below 2^32 with at least 65536 ids',
      )
    }
    // Processes that start together start looking at different places.
    this.next = Math.floor(Math.random() * this.count)
  }

  /** Takes a free range and returns its first id. */
  take(owner: string): number {
    mkdirSync(this.options.folder, { recursive: true, mode: 0o700 })
    for (let tried = 0; tried < this.count; tried++) {
      const index = this.next
      this.next = (this.next + 1) % this.count
      const first = this.options.first + index * RANGE_SIZE
      try {
        symlinkSync(owner, this.path(first))
        return first
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause
      }
    }
    throw new SandboxError('quota_exceeded', `all ${this.count} id ranges of this machine are in use`, {
      hint: `Destroy sandboxes that are not needed; ${this.options.folder} lists the owners.`,
    })
  }

  /** Whether the range belongs to this owner. A range of another owner is never taken or removed. */
  holds(first: number, owner: string): boolean {
    try {
      return ownerOf(this.path(first)) === owner
    } catch {
      return false
    }
  }

  free(first: number, owner: string): void {
    if (this.holds(first, owner)) ifThere(() => unlinkSync(this.path(first)))
  }

  /** All ranges in use, with their owners. */
  owners(): Map<number, string> {
    const { folder } = this.options
    const names = ifThere(() => readdirSync(folder)) ?? []
    const owners = new Map<number, string>()
    for (const name of names) {
      // All engines of the machine share the folder, so another engine may have freed the range since the listing.
      const owner = ifThere(() => ownerOf(join(folder, name)))
      if (owner !== undefined) owners.set(Number.parseInt(name, 16), owner)
    }
    return owners
  }

  private path(first: number): string {
    return join(this.options.folder, first.toString(16).padStart(8, '0'))
  }
}

/** Earlier versions wrote files. */
function ownerOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EINVAL') throw cause
    return readFileSync(path, 'utf8')
  }
}

function ifThere<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cause
  }
}
