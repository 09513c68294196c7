import { SandboxError, type SandboxErrorCode } from '../errors.ts'

/** Assertions without a test runner. Each throws an Error with the expected and the actual value. */

export function ok(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(what)
}

/** Compares arrays and plain objects deeply, other values with `Object.is`. */
export function equal<T>(actual: T, expected: T, what: string): void {
  if (!same(actual, expected)) throw new Error(`${what}: expected ${show(expected)}, got ${show(actual)}`)
}

export function includes(text: string, part: string, what: string): void {
  if (!text.includes(part))
    throw new Error(`${what}: expected it to contain ${show(part)}, got ${show(text)}`)
}

export function excludes(text: string, part: string, what: string): void {
  if (text.includes(part))
    throw new Error(`${what}: expected it not to contain ${show(part)}, got ${show(text)}`)
}

export function sameBytes(actual: Uint8Array, expected: Uint8Array, what: string): void {
  equal(actual.byteLength, expected.byteLength, `${what}: number of bytes`)
  for (let at = 0; at < expected.byteLength; at += 1) {
    if (actual[at] !== expected[at])
      throw new Error(`${what}: byte ${at} is ${actual[at]}, expected ${expected[at]}`)
  }
}

/** Asserts that the call fails with a SandboxError of one of these codes, and returns it. */
export async function rejects(
  call: Promise<unknown> | (() => unknown),
  codes: SandboxErrorCode | readonly SandboxErrorCode[],
  what: string,
): Promise<SandboxError> {
  const wanted: readonly SandboxErrorCode[] = typeof codes === 'string' ? [codes] : codes
  const named = wanted.join(' or ')
  let value: unknown
  try {
    value = await (typeof call === 'function' ? call() : call)
  } catch (error) {
    if (!SandboxError.is(error))
      throw new Error(`${what}: expected a SandboxError ${named}, got ${String(error)}`, { cause: error })
    if (!wanted.includes(error.code))
      throw new Error(`${what}: expected ${named}, got ${error.code} (${error.message})`, { cause: error })
    ok(
      error.message !== '' && error.hint !== '',
      `${what}: the error ${error.code} has no message or no hint`,
    )
    return error
  }
  throw new Error(`${what}: expected ${named}, but it succeeded with ${show(value)}`)
}

export function show(value: unknown): string {
  if (value === undefined) return 'undefined'
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`
  let text: string
  try {
    text = JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? `${part}n` : part)) ?? String(value)
  } catch {
    text = String(value)
  }
  return text.length > 400 ? `${text.slice(0, 300)}… (${text.length} characters)` : text
}

function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b) || a instanceof Uint8Array || b instanceof Uint8Array)
    return false
  const keys = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...keys].every((key) => same(a[key as keyof typeof a], b[key as keyof typeof b]))
}
