import type { Redactor } from './redact.ts'

/**
 * A view of a provider, or of a handle or process of it, whose errors contain no known secret. Methods run on the
 * original, because they use private fields.
 */
export function redacting<T extends object>(target: T, redactor: Redactor): T {
  return new Views(redactor).of(target)
}

class Views {
  readonly #redactor: Redactor
  readonly #views = new WeakMap<object, object>()
  readonly #methods = new WeakMap<object, Map<PropertyKey, Method>>()
  readonly #originals = new WeakMap<object, object>()

  constructor(redactor: Redactor) {
    this.#redactor = redactor
  }

  of<T extends object>(target: T): T {
    if (this.#originals.has(target)) return target
    const known = this.#views.get(target)
    if (known) return known as T
    const view = Object.isFrozen(target)
      ? this.#frozen(target)
      : new Proxy(target, {
          get: (_, name) => this.#property(target, name),
          // The default would set the property on the view, which setters with private fields refuse.
          set: (_, name, value) => Reflect.set(target, name, value),
        })
    this.#views.set(target, view)
    this.#originals.set(view, target)
    return view
  }

  /** A view must return the very properties of a frozen object, so it is a new object. */
  #frozen<T extends object>(target: T): T {
    const view = Object.create(Object.getPrototypeOf(target) as object | null) as T
    for (const name of Reflect.ownKeys(target))
      Object.defineProperty(view, name, { value: this.#property(target, name), enumerable: true })
    return Object.freeze(view)
  }

  #property(target: object, name: PropertyKey): unknown {
    const value: unknown = this.#guard(() => Reflect.get(target, name, target))
    if (typeof value !== 'function' || name === 'constructor') return this.#result(value)
    // The same function each time, as on the original.
    const methods = this.#methods.get(target) ?? new Map<PropertyKey, Method>()
    this.#methods.set(target, methods)
    const known = methods.get(name)
    if (known?.value === value) return known.wrapped
    const wrapped = (...args: unknown[]) =>
      this.#result(
        this.#guard(() =>
          Reflect.apply(
            value,
            target,
            args.map((arg) => this.#original(arg)),
          ),
        ),
      )
    methods.set(name, { value, wrapped })
    return wrapped
  }

  /** What a provider gets back from its caller is its own object. */
  #original(arg: unknown): unknown {
    return (typeof arg === 'object' && arg !== null && this.#originals.get(arg)) || arg
  }

  #guard<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      throw this.#redactor.error(error)
    }
  }

  #result(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    if (value instanceof Promise)
      return value.then(
        (result) => this.#result(result),
        (error: unknown) => Promise.reject(this.#redactor.error(error)),
      )
    // A page of handles also has a cursor.
    if (Array.isArray(value))
      return value.some(isLive)
        ? Object.assign(
            [],
            value,
            value.map((one) => this.#result(one)),
          )
        : value
    if (value instanceof Error) return this.#redactor.error(value)
    if (value instanceof ReadableStream) return this.#stream(value)
    return isLive(value) ? this.of(value) : value
  }
  /** Another stream that reads this one, when it is read itself. */
  #stream(source: ReadableStream<unknown>): ReadableStream<Uint8Array> {
    const reader = source.getReader() as ReadableStreamDefaultReader<Uint8Array>
    const guarded = <T>(work: Promise<T>) =>
      work.catch((error: unknown) => Promise.reject(this.#redactor.error(error)))
    return new ReadableStream({
      type: 'bytes',
      pull: async (controller) => {
        let read = await guarded(reader.read())
        // A stream of bytes refuses empty chunks.
        while (!read.done && read.value.length === 0) read = await guarded(reader.read())
        // The stream takes the chunk's memory over. A part of a pool is copied: other chunks are in it.
        if (!read.done)
          return controller.enqueue(isWhole(read.value) ? read.value : new Uint8Array(read.value))
        controller.close()
        controller.byobRequest?.respond(0)
      },
      cancel: (reason) => guarded(reader.cancel(reason)),
    })
  }
}

function isWhole(chunk: Uint8Array): boolean {
  return chunk.length === chunk.buffer.byteLength
}

interface Method {
  readonly value: unknown
  readonly wrapped: unknown
}

/** An object with methods: a handle, a process, its files, an iterator. Data and streams pass unchanged. */
function isLive(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false
  if (value instanceof Error) return true
  const tag = Object.prototype.toString.call(value)
  if (/^\[object (ReadableStream|Set|Map|Date|AbortSignal|Promise|ArrayBuffer|RegExp|URL|Blob)\]$/.test(tag))
    return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return true
  return Object.values(value).some((one) => typeof one === 'function')
}
