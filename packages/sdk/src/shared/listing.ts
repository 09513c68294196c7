import { SandboxError } from '../errors.ts'

/** About the size of a list of 100,000 files. */
const mostBytes = 32 * 1024 * 1024
const entryBytes = 200

/** Estimates the memory of a file list and throws `too_large` above the limit. */
export class ListingSize {
  #bytes = 0
  #entries = 0

  add(path: string): void {
    this.#entries += 1
    this.#bytes += entryBytes + 2 * path.length
    if (this.#bytes <= mostBytes) return
    throw new SandboxError(
      'too_large',
      `The folder has too many files to list: more than ${this.#entries}.`,
      {
        details: { entries: this.#entries },
        hint: 'List its subfolders one at a time, or run find in the sandbox.',
      },
    )
  }
}
