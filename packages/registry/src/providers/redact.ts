import { SandboxError } from '@sandkasten/sdk'

/** Removes known secrets from errors. Made once for each provider, and used only when a call fails. */
export interface Redactor {
  text(text: string): string
  /**
   * An error without the secrets. The same object when it can be changed in place: callers compare the reason of an
   * abort by identity.
   */
  error(error: unknown): unknown
}

const redacted = '[redacted]'
const omitted = '[omitted]'

/** Shorter values would match by chance. */
const leastLength = 6
const mostSecrets = 200
const mostDepth = 8
const mostNodes = 1000
const mostTextLength = 16 * 1024 * 1024

/** `secrets` with fewer than 6 characters are ignored. */
export function redactor(secrets: readonly string[]): Redactor {
  const forms = [...new Set(secrets.flatMap(formsOf))].filter(({ length }) => length >= leastLength)
  // Of two that begin at the same place, the longer one has to be removed.
  const longestFirst = forms.sort((one, other) => other.length - one.length).slice(0, mostSecrets)
  if (longestFirst.length === 0) return { text: (text) => text, error: (error) => error }
  const hasBytes = (bytes: Uint8Array) =>
    longestFirst.some((form) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes(form))
  const pattern = new RegExp(
    longestFirst.map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|'),
    'g',
  )
  const text = (given: string) =>
    given.length > mostTextLength
      ? `${given.slice(0, mostTextLength).replace(pattern, redacted)} ${omitted}`
      : given.replace(pattern, redacted)
  return { text, error: (error) => new Cleaner(text, hasBytes).value(error, 0) }
}

/** A secret as clients and servers repeat it. An error may quote a single line of a private key. */
function formsOf(secret: string): string[] {
  const trimmed = secret.trim()
  const lines = trimmed.split(/\r?\n/)
  const parts = lines.length > 1 ? lines.filter((line) => line.length >= 16 && !line.startsWith('-----')) : []
  const bytes = Buffer.from(trimmed)
  return [
    trimmed,
    encodeURIComponent(trimmed),
    JSON.stringify(trimmed).slice(1, -1),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    ...parts,
  ]
}

/** Cleans one error, with a limit on how much it looks at. Objects without secrets stay the same objects. */
class Cleaner {
  readonly #text: (text: string) => string
  readonly #hasBytes: (bytes: Uint8Array) => boolean
  readonly #seen = new Map<object, unknown>()
  #nodes = 0

  constructor(text: (text: string) => string, hasBytes: (bytes: Uint8Array) => boolean) {
    this.#text = text
    this.#hasBytes = hasBytes
  }

  value(value: unknown, depth: number): unknown {
    if (typeof value === 'string') return this.#text(value)
    if (typeof value === 'function') return omitted
    if (typeof value !== 'object' || value === null) return value
    if (this.#seen.has(value)) return this.#seen.get(value)
    this.#nodes += 1
    if (depth > mostDepth || this.#nodes > mostNodes) return omitted
    if (value instanceof Error) return this.#error(value, depth)
    if (value instanceof Date) return value
    if (value instanceof Uint8Array) return this.#hasBytes(value) ? omitted : value
    const prototype: unknown = Object.getPrototypeOf(value)
    const plain = Array.isArray(value) || prototype === Object.prototype || prototype === null
    // A request, a response or a socket: its headers hold credentials, partly in private fields.
    return plain ? this.#plain(value, depth) : omitted
  }

  /** The object itself, or a copy without the secrets: others may share the object, so it is not changed. */
  #plain(value: object, depth: number): unknown {
    // A cycle is cut: it ends where the object occurs again.
    this.#seen.set(value, omitted)
    const entries = Object.entries(value).map(([key, inner]) => {
      const cleaned = [this.#text(key), this.value(inner, depth + 1)] as const
      return { cleaned, same: cleaned[0] === key && cleaned[1] === inner }
    })
    const whole = Object.getOwnPropertySymbols(value).length === 0
    const clean =
      whole && entries.every(({ same }) => same)
        ? value
        : Array.isArray(value)
          ? entries.map(({ cleaned }) => cleaned[1])
          : Object.fromEntries(entries.map(({ cleaned }) => cleaned))
    this.#seen.set(value, clean)
    return clean
  }

  #error(error: Error, depth: number): unknown {
    this.#seen.set(error, error)
    try {
      for (const name of Reflect.ownKeys(error)) {
        const { enumerable } = Object.getOwnPropertyDescriptor(error, name)!
        const before: unknown = Reflect.get(error, name)
        const value = this.value(before, depth + 1)
        if (value !== before)
          Object.defineProperty(error, name, { value, enumerable, configurable: true, writable: true })
      }
      return error
    } catch {
      return this.#replacement(error)
    }
  }

  /** For an error that cannot be changed, such as a frozen one. */
  #replacement(error: Error): SandboxError {
    const known = SandboxError.is(error) ? error : undefined
    const replacement = new SandboxError(known?.code ?? 'provider_error', this.#text(String(error.message)), {
      provider: known?.provider,
      hint: known && this.#text(known.hint),
      retryable: known?.retryable,
      sandboxId: known?.sandboxId,
    })
    this.#seen.set(error, replacement)
    return replacement
  }
}
