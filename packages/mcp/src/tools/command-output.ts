import type { OutputEvent } from '@sandkasten/sdk'
import { HeadTail } from '@sandkasten/sdk/provider'
import type { OpenSandbox } from '../sources/index.ts'
import { limits } from './limits.ts'
import { SavedOutput } from './saved-output.ts'
import { cleanOutput, oneLine, shortened } from './text.ts'

/** Output of one command, in the order in which it arrives: head and tail in memory, and all of it in a file if it is long. */
export class CommandOutput {
  readonly #sandbox: OpenSandbox
  readonly #kept = new HeadTail(limits.resultChars)
  #before: Uint8Array[] = []
  #bytes = 0
  #saved: SavedOutput | undefined
  #last = new Uint8Array()

  constructor(sandbox: OpenSandbox) {
    this.#sandbox = sandbox
  }

  async push({ data }: OutputEvent): Promise<void> {
    this.#kept.push(data)
    this.#bytes += data.byteLength
    this.#last = data.slice(-400)
    if (this.#saved) return this.#saved.write(data)
    this.#before.push(data)
    if (this.#bytes <= limits.resultChars) return
    this.#saved = await SavedOutput.open(this.#sandbox)
    for (const chunk of this.#before.splice(0)) await this.#saved.write(chunk)
  }

  /** The end of the output, for a progress line. */
  get lastLine(): string {
    const text = cleanOutput(new TextDecoder().decode(this.#last)).trimEnd()
    return oneLine(text.slice(text.lastIndexOf('\n') + 1), 120)
  }

  async end(): Promise<{ text: string; truncated: boolean; file?: string; note?: string }> {
    const text = shortened(cleanOutput(this.#kept.text()), limits.resultChars)
    if (!this.#saved) return { text, truncated: false }
    const { path: file, note } = await this.#saved.end()
    return { text, truncated: true, note, ...(file !== undefined && { file }) }
  }
}
