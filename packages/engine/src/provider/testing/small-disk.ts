import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { release, tmpdir } from 'node:os'
import path from 'node:path'

/** A tmpfs for a test's data folder, with an exact limit of files and pages. Needs root. */
export class SmallDisk implements Disposable {
  readonly folder: string
  readonly #place: string

  /** Disks of sandboxes are id-mapped, which tmpfs supports since Linux 6.3. */
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

  /** Leaves room for this many more files or pages of content. */
  leave(room: { files: number } | { pages: number }): void {
    const { bsize, blocks, bfree, files, ffree } = statfsSync(this.folder)
    if ('files' in room) this.#remount(`nr_inodes=${files - ffree + room.files}`)
    // A size of 0 means no limit.
    else this.#remount(`size=${Math.max(blocks - bfree + room.pages, 1) * bsize}`)
  }

  readOnly(): void {
    this.#remount('ro')
  }

  /** Restores the initial limits. */
  heal(): void {
    this.#remount(`rw,${PLENTY}`)
  }

  [Symbol.dispose](): void {
    // Unmount lazily, because the kernel removes the last mount of a sandbox shortly after its end.
    execFileSync('umount', ['--lazy', this.folder])
    rmSync(this.#place, { recursive: true, force: true })
  }

  #remount(options: string): void {
    execFileSync('mount', ['-o', `remount,${options}`, this.folder])
  }
}

const PLENTY = 'size=64m,nr_inodes=20k'
