import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import type { OpenSandbox } from '../sources/index.ts'
import { limits } from './limits.ts'

/**
 * A long output, saved in the sandbox while the command runs. Backpressure reaches the program: it waits while the file
 * is written.
 */
export class SavedOutput {
  readonly #path: string
  readonly #stream = new PassThrough()
  /** The error, if the file could not be written. */
  readonly #written: Promise<unknown>
  #bytes = 0

  static async open(sandbox: OpenSandbox): Promise<SavedOutput> {
    return new SavedOutput(sandbox, await folderIn(sandbox))
  }

  private constructor({ handle: { files }, signal }: OpenSandbox, folder: string) {
    const at = new Date().toISOString().replace(/\D/g, '').slice(0, 17)
    this.#path = `${folder}/${at}-${randomBytes(3).toString('hex')}.txt`
    this.#written = files.writeFile(this.#path, this.#stream, { signal }).then(
      () => removeOldest(files, folder),
      (error: unknown) => {
        this.#stream.destroy()
        return error
      },
    )
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#bytes += chunk.byteLength
    if (this.#bytes > limits.savedBytes) this.#stream.end()
    if (this.#stream.destroyed || this.#stream.writableEnded) return
    if (!this.#stream.write(chunk)) await Promise.race([once(this.#stream, 'drain'), this.#written])
  }

  /** The sentence that tells the model about the file. */
  async end(): Promise<{ path?: string; note: string }> {
    this.#stream.end()
    const error = await this.#written
    if (error !== undefined)
      return {
        note: `the rest could not be saved: ${SandboxError.is(error) ? error.message : String(error)}`,
      }
    const cut = this.#bytes > limits.savedBytes ? ` (only the first ${limits.savedBytes} bytes)` : ''
    return { path: this.#path, note: `all of it is in ${this.#path}${cut}; search it, or read it in parts` }
  }
}

/** `/tmp`, or a folder of the project that git ignores, where the sandbox has no `/tmp` of its own. */
async function folderIn({ handle: { files }, directory, signal }: OpenSandbox): Promise<string> {
  const usual = '/tmp/sandbox-output'
  try {
    await files.mkdir(usual, { recursive: true, signal })
    return usual
  } catch (error) {
    if (!SandboxError.is(error, 'path_outside', 'permission_denied', 'not_a_directory', 'file_exists'))
      throw error
    const folder = `${directory}/.sandbox-output`
    await files.writeFile(`${folder}/.gitignore`, '*\n', { signal })
    return folder
  }
}

/** Names begin with the time. What cannot be removed now is removed with the next output. */
async function removeOldest(files: OpenSandbox['handle']['files'], folder: string): Promise<undefined> {
  try {
    const names = (await files.readdir(folder)).filter((name) => /^\d{17}-[0-9a-f]{6}\.txt$/.test(name))
    for (const name of names.slice(0, -limits.savedOutputs))
      await files.rm(`${folder}/${name}`, { force: true })
  } catch {}
}
