import type { CommandResult, ShellResult } from '@sandkasten/sdk'
import { characterEnd, jsonChunks, nextTurn, stepChars } from '../../large-texts.ts'
import type { ResultAccount } from './result-memory.ts'

/** A result keeps at least this much, even if its project has no memory left. */
const leastResultBytes = 64 * 1024
const seam = '\n[… cut here: the result is larger than is allowed …]\n'
/** The step size of the search for the cut. */
const sliceLength = 4096
const slicesInStep = stepChars / sliceLength

/**
 * Cuts the middle out of a result whose JSON would be larger than `maxBytes`. Control characters take six bytes each in
 * JSON, so 64 MiB of NUL would be 384 MiB.
 */
export async function fitted<T extends CommandResult | ShellResult>(result: T, maxBytes: number): Promise<T> {
  if ('output' in result) {
    const [output] = await fitTexts([result.output], maxBytes)
    return output === result.output ? result : { ...result, output, truncated: true }
  }
  const { stdout, stderr } = result as CommandResult
  const [out, err] = await fitTexts([stdout, stderr], maxBytes)
  if (out === stdout && err === stderr) return result
  return { ...result, stdout: out, stderr: err, truncated: true }
}

/** Cuts a result to the project's available memory. The command has already run, so its result is never refused. */
export async function fitMemory<T extends CommandResult | ShellResult>(
  account: ResultAccount,
  result: T,
  maxBytes: number,
): Promise<T> {
  const most = Math.max(leastResultBytes, Math.min(maxBytes, account.room))
  // Take the memory before measuring, because many results may be waiting to be measured.
  account.hold(Math.max(account.held, Math.min(most, charsOf(result))))
  const fit = await fitted(result, most)
  const bytes = await resultBytes(fit)
  account.hold(bytes > leastResultBytes ? bytes : 0)
  return fit
}

/** The result as text for its row. */
export async function encodedResult(
  account: ResultAccount,
  result: CommandResult | ShellResult,
  { kind, maxBytes }: { kind: 'run' | 'exec'; maxBytes: number },
): Promise<string> {
  const fit = await fitMemory(account, result, maxBytes)
  let text = ''
  for await (const piece of jsonChunks({ kind, ...fit })) text += piece
  return text
}

function charsOf(result: CommandResult | ShellResult): number {
  return 'output' in result ? result.output.length : result.stdout.length + result.stderr.length
}

/** The approximate size as JSON, in bytes. */
async function resultBytes(result: CommandResult | ShellResult): Promise<number> {
  let bytes = 0
  for (const text of 'output' in result ? [result.output] : [result.stdout, result.stderr])
    bytes += await jsonBytes(text)
  return bytes
}

/** Bytes of a text as a JSON string in UTF-8. Counting stops soon after `most`. */
async function jsonBytes(text: string, most = Number.POSITIVE_INFINITY): Promise<number> {
  let bytes = 2
  for (let at = 0; at < text.length && bytes <= most; ) {
    if (at > 0) await nextTurn()
    const end = characterEnd(text, at + stepChars)
    bytes += encodedBytes(text, at, end)
    at = end
  }
  return bytes
}

/** Cuts the middle out of the largest texts until their JSON fits. */
export async function fitTexts(texts: readonly string[], maxBytes: number): Promise<string[]> {
  // Most results fit even at six bytes per character; skip measuring.
  if (texts.reduce((sum, text) => sum + text.length * 6, 0) <= maxBytes) return [...texts]
  const sizes: number[] = []
  for (const text of texts) sizes.push(await jsonBytes(text, maxBytes))
  if (sizes.reduce((a, b) => a + b) <= maxBytes) return [...texts]
  const share = maxBytes / texts.length
  // Large texts also get the unused share of small ones.
  const spare = sizes.reduce((sum, size) => sum + Math.max(0, share - size), 0)
  const large = sizes.filter((size) => size > share).length
  const fit: string[] = []
  for (const [index, text] of texts.entries())
    fit.push(sizes[index]! <= share ? text : await cut(text, share + spare / large))
  return fit
}

/** Keeps the beginning and the end, in about `maxBytes` bytes of JSON. */
async function cut(text: string, maxBytes: number): Promise<string> {
  const half = (maxBytes - 2 * seam.length) / 2
  let head = 0
  for (let bytes = 0, slices = 1; head < text.length; slices += 1) {
    const end = characterEnd(text, head + sliceLength)
    bytes += encodedBytes(text, head, end)
    if (bytes > half) break
    head = end
    if (slices % slicesInStep === 0) await nextTurn()
  }
  let tail = text.length
  for (let bytes = 0, slices = 1; tail > head; slices += 1) {
    const start = characterEnd(text, Math.max(head, tail - sliceLength))
    bytes += encodedBytes(text, start, tail)
    if (bytes > half) break
    tail = start
    if (slices % slicesInStep === 0) await nextTurn()
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
    // JSON escapes a lone surrogate.
    else bytes += 6
  }
  return bytes
}

const asciiBytes = Uint8Array.from(
  { length: 0x80 },
  (_, unit) => JSON.stringify(String.fromCharCode(unit)).length - 2,
)
