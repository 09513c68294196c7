import type { OutputEvent } from '@sandkasten/sdk'
import { HeadTail } from '@sandkasten/sdk/provider'
import type { OpenSandbox } from '../sources/index.ts'
import { limits } from './limits.ts'
import { SavedOutput } from './saved-output.ts'
import { cleanOutput, oneLine, shortened } from './text.ts'

/** Output of one command, in the order in which it arrives: head and tail in memory, and all of it in a file if it is long. */
export class CommandOutput {
  readonly #sandbox: OpenSandbox
  readonly #kept = new HeadTail(limits.resultBytes)
  #before: Uint8Array[] = []
  #bytes = 0
  #lines = 0
  #saved: SavedOutput | undefined
  #last = new Uint8Array()

  constructor(sandbox: OpenSandbox) {
    this.#sandbox = sandbox
  }

  async push({ data }: OutputEvent): Promise<void> {
    this.#kept.push(data)
    this.#bytes += data.byteLength
    if (!this.#saved) for (const byte of data) if (byte === 10) this.#lines += 1
    this.#last = data.slice(-400)
    if (this.#saved) return this.#saved.write(data)
    this.#before.push(data)
    if (this.#bytes <= limits.resultBytes && this.#lines <= limits.resultLines) return
    this.#saved = await SavedOutput.open(this.#sandbox)
    for (const chunk of this.#before.splice(0)) await this.#saved.write(chunk)
  }

  /** The end of the output, for a progress line. */
  get lastLine(): string {
    const text = cleanOutput(new TextDecoder().decode(this.#last)).trimEnd()
    return oneLine(text.slice(text.lastIndexOf('\n') + 1), 120)
  }

  async end(): Promise<{ text: string; truncated: boolean; file?: string; note?: string }> {
    const text = shownOutput(this.#kept)
    if (!this.#saved) return { text, truncated: false }
    const { path: file, note } = await this.#saved.end()
    return { text, truncated: true, note, ...(file !== undefined && { file }) }
  }
}

/** The text of a result: clean, and within its limits. */
export function shownOutput(kept: HeadTail): string {
  return shortened(cleanOutput(kept.text()), limits.resultBytes, limits.resultLines)
}
