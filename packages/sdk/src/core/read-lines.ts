import { SandboxError } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import { concat } from '../shared/output/bytes.ts'
import type { FileLines, ReadLinesOptions } from '../spec/index.ts'
import { checkCount, invalid } from './validate.ts'

const newline = 0x0a
const carriageReturn = 0x0d
/** Bounds the memory of very short lines. */
const mostLines = 1_000_000

export interface LineRange {
  readonly startLine: number
  /** Infinity: up to the end of the file. */
  readonly endLine: number
  readonly maxLineBytes: number
  readonly maxBytes: number
}

export function checkRange(options: ReadLinesOptions): LineRange {
  const { startLine = 1, endLine, maxLineBytes = 64 * 1024, maxBytes = 16 * 1024 * 1024 } = options
  for (const [name, line] of Object.entries({ startLine, endLine: endLine ?? startLine }))
    if (!Number.isSafeInteger(line) || line < 1)
      throw invalid(`\`${name}\` is ${String(line)}.`, 'Lines are counted from 1.')
  if (endLine !== undefined && endLine < startLine)
    throw invalid(`\`endLine\` (${endLine}) is before \`startLine\` (${startLine}).`)
  return {
    startLine,
    endLine: endLine ?? Infinity,
    maxLineBytes: checkCount(maxLineBytes, 'maxLineBytes', 2 ** 30),
    maxBytes: checkCount(maxBytes, 'maxBytes', 2 ** 30),
  }
}

/** Reads no further than needed to learn whether a line follows the last requested one. */
export async function linesOf(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  range: LineRange,
  signal: AbortSignal | undefined,
): Promise<FileLines> {
  const { startLine } = range
  const reader = new LineReader(path, range)
  let more = false
  for await (const chunk of chunks) {
    throwIfAborted(signal, 'Reading the file')
    more = reader.add(chunk)
    if (more) break
  }
  if (!more) reader.end()
  const { lines, cutLines, line } = reader
  return { lines, startLine, cutLines, more, ...(more ? {} : { totalLines: line - 1 }) }
}

class LineReader {
  readonly lines: string[] = []
  readonly cutLines: number[] = []
  /** The number of the line that is being read. */
  line = 1
  readonly #path: string
  readonly #range: LineRange
  #pieces: Uint8Array[] = []
  /** The size of the current line so far, and how much of it is kept. */
  #size = 0
  #kept = 0
  #total = 0

  constructor(path: string, range: LineRange) {
    this.#path = path
    this.#range = range
  }

  /** Returns true if the chunk has a byte after the last requested line. */
  add(chunk: Uint8Array): boolean {
    for (let at = 0; at < chunk.byteLength; ) {
      if (this.line > this.#range.endLine) return true
      const end = chunk.indexOf(newline, at)
      const stop = end === -1 ? chunk.byteLength : end
      this.#take(chunk, at, stop)
      if (end === -1) return false
      this.#finish(true)
      at = end + 1
    }
    return false
  }

  /** Ends a last line that has no newline. */
  end(): void {
    if (this.#size > 0) this.#finish(false)
  }

  #take(chunk: Uint8Array, from: number, to: number): void {
    this.#size += to - from
    if (this.line < this.#range.startLine) return
    // One byte more: it may be the carriage return of a line that just fits.
    const room = this.#range.maxLineBytes + 1 - this.#kept
    const piece = chunk.subarray(from, Math.min(to, from + Math.max(room, 0)))
    if (piece.byteLength === 0) return
    // Copied, so that one kept line does not keep the memory of its whole chunk.
    this.#pieces.push(piece.slice())
    this.#kept += piece.byteLength
  }

  #finish(terminated: boolean): void {
    if (this.line >= this.#range.startLine) this.#push(terminated)
    this.line += 1
    this.#pieces = []
    this.#size = 0
    this.#kept = 0
  }

  #push(terminated: boolean): void {
    const { maxLineBytes, maxBytes } = this.#range
    const bytes = concat(this.#pieces)
    const whole = bytes.byteLength === this.#size
    const crlf = whole && terminated && bytes.at(-1) === carriageReturn
    const length = bytes.byteLength - (crlf ? 1 : 0)
    const isCut = !whole || length > maxLineBytes
    const kept = bytes.subarray(0, isCut ? wholeCharacters(bytes, maxLineBytes) : length)
    this.#total += kept.byteLength + 1
    if (this.#total > maxBytes || this.lines.length === mostLines)
      throw tooLarge(this.#path, maxBytes, this.line)
    if (isCut) this.cutLines.push(this.line)
    this.lines.push(new TextDecoder('utf-8', { ignoreBOM: true }).decode(kept))
  }
}

/** The largest length, up to `most`, that does not end inside a character of UTF-8. */
function wholeCharacters(bytes: Uint8Array, most: number): number {
  let at = most
  while (at > 0 && most - at < 4 && (bytes[at]! & 0xc0) === 0x80) at -= 1
  return (bytes[at]! & 0xc0) === 0x80 ? most : at
}

function tooLarge(path: string, maxBytes: number, line: number): SandboxError {
  return new SandboxError(
    'too_large',
    `These lines of ${path} exceed ${maxBytes} bytes or ${mostLines} lines.`,
    {
      hint: `Read fewer lines, such as those before line ${line}, or allow more bytes.`,
      details: { maxBytes, line },
    },
  )
}
