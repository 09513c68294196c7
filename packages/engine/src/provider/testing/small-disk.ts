import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { release, tmpdir } from 'node:os'
import path from 'node:path'

/** A disk of its own for a test's data folder, in memory, whose room is said to the file. For root. */
export class SmallDisk implements Disposable {
  readonly folder: string
  readonly #place: string

  /** Sandboxes' disks are id-mapped, and files in memory can be since Linux 6.3. */
  static reasonToSkip(): string | undefined {
    const [major = 0, minor = 0] = release().split('.').map(Number)
    return major > 6 || (major === 6 && minor >= 3) ? undefined : 'needs Linux 6.3 to map files in memory'
  }

  constructor() {
    this.#place = mkdtempSync(path.join(tmpdir(), 'sandkasten-disk-'))
    this.folder = path.join(this.#place, 'disk')
    mkdirSync(this.folder)
    execFileSync('mount', ['-t', 'tmpfs', '-o', `mode=0700,${PLENTY}`, 'none', this.folder])
  }

  /** So many more files, or so many more pages of content, and then it is full. */
  leave(room: { files: number } | { pages: number }): void {
    const { bsize, blocks, bfree, files, ffree } = statfsSync(this.folder)
    if ('files' in room) this.#remount(`nr_inodes=${files - ffree + room.files}`)
    // No limit is what a size of 0 would mean.
    else this.#remount(`size=${Math.max(blocks - bfree + room.pages, 1) * bsize}`)
  }

  readOnly(): void {
    this.#remount('ro')
  }

  /** As it was at first. */
  heal(): void {
    this.#remount(`rw,${PLENTY}`)
  }

  [Symbol.dispose](): void {
    // Lazily: the kernel takes the last mount of a sandbox apart a moment after its end.
    execFileSync('umount', ['--lazy', this.folder])
    rmSync(this.#place, { recursive: true, force: true })
  }

  #remount(options: string): void {
    execFileSync('mount', ['-o', `remount,${options}`, this.folder])
  }
}

const PLENTY = 'size=64m,nr_inodes=20k'
