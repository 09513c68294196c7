import { SandboxError } from '../errors.ts'

/** About what a list of a hundred thousand files takes. */
const mostBytes = 32 * 1024 * 1024
const entryBytes = 200

/** Counts what a list of files takes in memory, and throws `too_large` for one that is too long. */
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
