import type { CommandResult, ShellResult } from '@sandkasten/sdk'
import type { ResultAccount } from './result-memory.ts'

/** Kept of a result even if its project has no memory left. */
const leastResultBytes = 64 * 1024
const seam = '\n[… cut here: the result is larger than is allowed …]\n'
/** Takes milliseconds to encode. */
const longText = 262_144
/** How finely the middle is found. */
const sliceLength = 4096

/**
 * The result, with its text shortened in the middle where its JSON would be larger than `maxBytes`. Control characters
 * take six bytes each in JSON, so 64 MiB of NUL would be 384 MiB.
 */
export function fitted<T extends CommandResult | ShellResult>(result: T, maxBytes: number): T {
  if ('output' in result) {
    const [output] = fitTexts([result.output], maxBytes)
    return output === result.output ? result : { ...result, output, truncated: true }
  }
  const { stdout, stderr } = result as CommandResult
  const [out, err] = fitTexts([stdout, stderr], maxBytes)
  if (out === stdout && err === stderr) return result
  return { ...result, stdout: out, stderr: err, truncated: true }
}

/** A result as large as its project's memory allows now. Its command has run, so it is cut and never refused. */
export function fitMemory<T extends CommandResult | ShellResult>(
  account: ResultAccount,
  result: T,
  maxBytes: number,
): T {
  // What was taken while the output was collected is the result now.
  account.hold(0)
  const fit = fitted(result, Math.max(leastResultBytes, Math.min(maxBytes, account.room)))
  const bytes = resultBytes(fit)
  if (bytes > leastResultBytes) account.hold(bytes)
  return fit
}

/** The result as text for the store. A large one is made in steps, between which other requests are served. */
export async function encodedResult(
  account: ResultAccount,
  result: CommandResult | ShellResult,
  { kind, maxBytes }: { kind: 'run' | 'exec'; maxBytes: number },
): Promise<string> {
  const chars = 'output' in result ? result.output.length : result.stdout.length + result.stderr.length
  await othersFirst(chars)
  const fit = fitMemory(account, result, maxBytes)
  await othersFirst(chars)
  const text = JSON.stringify({ kind, ...fit })
  await othersFirst(chars)
  return text
}

/** Serves other requests first, if a text of this length is about to take long. */
export async function othersFirst(chars: number): Promise<void> {
  if (chars > longText) await new Promise((resolve) => setImmediate(resolve))
}

/** About how many bytes of JSON it is. */
function resultBytes(result: CommandResult | ShellResult): number {
  const texts = 'output' in result ? [result.output] : [result.stdout, result.stderr]
  return texts.reduce((sum, text) => sum + jsonBytes(text), 0)
}

/** Bytes of a text as a JSON string in UTF-8. Counting stops soon after `most`. */
function jsonBytes(text: string, most = Number.POSITIVE_INFINITY): number {
  let bytes = 2
  for (let at = 0; at < text.length && bytes <= most; ) {
    const end = boundary(text, at + sliceLength)
    bytes += encodedBytes(text, at, end)
    at = end
  }
  return bytes
}

/** Texts whose JSON together is no larger than that; the larger ones lose their middle. */
export function fitTexts(texts: readonly string[], maxBytes: number): string[] {
  // The usual case, decided without measuring.
  if (texts.reduce((sum, text) => sum + text.length * 6, 0) <= maxBytes) return [...texts]
  const sizes = texts.map((text) => jsonBytes(text, maxBytes))
  if (sizes.reduce((a, b) => a + b) <= maxBytes) return [...texts]
  const share = maxBytes / texts.length
  // What small texts leave of their share is for the large ones.
  const spare = sizes.reduce((sum, size) => sum + Math.max(0, share - size), 0)
  const large = sizes.filter((size) => size > share).length
  return texts.map((text, index) => (sizes[index]! <= share ? text : cut(text, share + spare / large)))
}

/** The beginning and the end, in about so many bytes of JSON. */
function cut(text: string, maxBytes: number): string {
  const half = (maxBytes - 2 * seam.length) / 2
  let head = 0
  for (let bytes = 0; head < text.length; ) {
    const end = boundary(text, head + sliceLength)
    bytes += encodedBytes(text, head, end)
    if (bytes > half) break
    head = end
  }
  let tail = text.length
  for (let bytes = 0; tail > head; ) {
    const start = boundary(text, Math.max(head, tail - sliceLength))
    bytes += encodedBytes(text, start, tail)
    if (bytes > half) break
    tail = start
  }
  return `${text.slice(0, head)}${seam}${text.slice(tail)}`
}

/**
 * Bytes of a part of the text in JSON, without the quotation marks. Counted, not encoded: encoding 16 MiB of control
 * characters only to measure them would hold up every other request for half a second.
 */
function encodedBytes(text: string, from: number, to: number): number {
  let bytes = 0
  for (let at = from; at < to; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit < 0x80) bytes += asciiBytes[unit]!
    else if (unit < 0x800) bytes += 2
    else if (unit < 0xd800 || unit > 0xdfff) bytes += 3
    else if (unit < 0xdc00 && at + 1 < to && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      bytes += 4
      at += 1
    }
    // Half of a character is escaped.
    else bytes += 6
  }
  return bytes
}

const asciiBytes = Uint8Array.from(
  { length: 0x80 },
  (_, unit) => JSON.stringify(String.fromCharCode(unit)).length - 2,
)

/** Not between the two halves of a character. */
function boundary(text: string, at: number): number {
  if (at >= text.length) return text.length
  const unit = text.charCodeAt(at)
  return unit >= 0xdc00 && unit <= 0xdfff ? at + 1 : at
}
