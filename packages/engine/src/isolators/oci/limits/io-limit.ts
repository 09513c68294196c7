import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { CgroupLayout } from './cgroups.ts'

/**
 * How fast each sandbox may use the disk of the engine's folder. Control groups v1 (`blkio`) limit reads, and writes
 * that bypass the page cache. v2 (`io`) limits all.
 */
export interface IoLimit {
  readonly readBytesPerSecond?: number
  readonly writeBytesPerSecond?: number
}

/** Adds the limit to the layout. Throws if no control group can enforce it. */
export function withIoLimit(
  layout: CgroupLayout,
  folder: string,
  { readBytesPerSecond, writeBytesPerSecond }: IoLimit,
): CgroupLayout {
  if (readBytesPerSecond === undefined && writeBytesPerSecond === undefined) return layout
  for (const value of [readBytesPerSecond, writeBytesPerSecond])
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 4096))
      throw new SandboxError(
        'invalid_argument',
        `ioLimit: ${value} is not a number of bytes of at least 4096`,
      )
  if (!layout.v2?.controllers.includes('io') && layout.v1.blkio === undefined)
    throw cannot('this machine has no control group controller for I/O')
  const device = diskOf(folder)
  if (device === undefined) throw cannot(`${folder} is not on a disk that can be limited`)
  return {
    ...layout,
    io: { device, readBytesPerSecond, writeBytesPerSecond },
  }
}

/**
 * `major:minor` of the whole disk, because partitions cannot be limited. Undefined for file systems without a disk of
 * their own, such as tmpfs and btrfs.
 */
function diskOf(folder: string): string | undefined {
  let there = folder
  while (!existsSync(there)) there = dirname(there)
  const { dev } = statSync(there, { bigint: true })
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)
  const minor = (dev & 0xffn) | ((dev >> 12n) & ~0xffn)
  const block = `/sys/dev/block/${major}:${minor}`
  if (major === 0n || !existsSync(block)) return undefined
  const real = realpathSync(block)
  const disk = existsSync(join(real, 'partition')) ? dirname(real) : real
  return readFileSync(join(disk, 'dev'), 'utf8').trim()
}

const cannot = (message: string) =>
  new SandboxError('unsupported', `ioLimit: ${message}`, { hint: 'Omit the limit.' })
