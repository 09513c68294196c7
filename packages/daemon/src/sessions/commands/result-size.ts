import type { CommandResult, ShellResult } from '@sandkasten/sdk'
import type { ResultAccount } from './result-memory.ts'

/** Kept of a result even if its project has no memory left. */
const leastResultBytes = 64 * 1024
const seam = '\n[… cut here: the result is larger than is allowed …]\n'
/** Measured at once. */
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

/** About how many bytes of JSON it is. */
function resultBytes(result: CommandResult | ShellResult): number {
  const texts = 'output' in result ? [result.output] : [result.stdout, result.stderr]
  return texts.reduce((sum, text) => sum + jsonBytes(text), 0)
}

/** Bytes of a text as a JSON string in UTF-8. */
function jsonBytes(text: string): number {
  let bytes = 2
  for (let at = 0; at < text.length; ) {
    const end = boundary(text, at + sliceLength)
    bytes += encodedBytes(text.slice(at, end))
    at = end
  }
  return bytes
}

/** Texts whose JSON together is no larger than that; the larger ones lose their middle. */
export function fitTexts(texts: readonly string[], maxBytes: number): string[] {
  // The usual case, decided without measuring.
  if (texts.reduce((sum, text) => sum + text.length * 6, 0) <= maxBytes) return [...texts]
  const sizes = texts.map(jsonBytes)
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
    bytes += encodedBytes(text.slice(head, end))
    if (bytes > half) break
    head = end
  }
  let tail = text.length
  for (let bytes = 0; tail > head; ) {
    const start = boundary(text, Math.max(head, tail - sliceLength))
    bytes += encodedBytes(text.slice(start, tail))
    if (bytes > half) break
    tail = start
  }
  return `${text.slice(0, head)}${seam}${text.slice(tail)}`
}

/** Without the quotation marks. */
function encodedBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2
}

/** Not between the two halves of a character. */
function boundary(text: string, at: number): number {
  if (at >= text.length) return text.length
  const unit = text.charCodeAt(at)
  return unit >= 0xdc00 && unit <= 0xdfff ? at + 1 : at
}
