import type { ProcessEvent } from '@sandkasten/sdk'

/** After a pause of this length the output counts as complete for now. Later output is in the next response. */
const quietMs = 150
/** For a command that never pauses: the response ends after this time, or at this size. */
const mostMs = 1000
const mostText = 4_194_304

/**
 * A command's output so far after an event, without waiting for the command's end. The cursor is the number of the last
 * event that is included. It never splits a character, so the texts of several requests can be joined.
 */
export async function textSoFar(
  output: (signal: AbortSignal) => AsyncIterable<ProcessEvent>,
  after: number,
  gone: AbortSignal,
  /** Whether the command has ended. */
  ended = false,
): Promise<{ text: string; cursor: number }> {
  const stop = new AbortController()
  const events = output(AbortSignal.any([stop.signal, gone]))[Symbol.asyncIterator]()
  const streams = { stdout: new Text(), stderr: new Text() }
  const whole = { text: '', cursor: after }
  const startedAt = performance.now()
  let text = ''
  try {
    for (;;) {
      const next = await (ended ? events.next() : soon(events.next()))
      if (!next || next.done) return whole
      const { value } = next
      if (value.type === 'exit')
        return { text: text + streams.stdout.end() + streams.stderr.end(), cursor: value.seq - 1 }
      text += streams[value.type].push(value.data)
      if (streams.stdout.complete && streams.stderr.complete)
        Object.assign(whole, { text, cursor: value.seq })
      if (text.length > mostText || (!ended && performance.now() - startedAt > mostMs)) return whole
    }
  } finally {
    stop.abort()
    void Promise.resolve(events.return?.()).catch(() => {})
  }
}

async function soon<T>(next: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const quiet = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), quietMs)
  })
  // An abandoned read ends with the signal; ignore its error.
  next.catch(() => {})
  try {
    return await Promise.race([next, quiet])
  } finally {
    clearTimeout(timer)
  }
}

class Text {
  readonly #decoder = new TextDecoder()
  /** The missing bytes of the last character. */
  #open = 0

  get complete(): boolean {
    return this.#open === 0
  }

  push(bytes: Uint8Array): string {
    this.#open = missingAfter(bytes, this.#open)
    return this.#decoder.decode(bytes, { stream: true })
  }

  end(): string {
    return this.#decoder.decode()
  }
}

/** The number of UTF-8 bytes that the last character lacks. */
function missingAfter(bytes: Uint8Array, open: number): number {
  if (bytes.length < open && bytes.every((byte) => byte >> 6 === 0b10)) return open - bytes.length
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back]!
    if (byte >> 6 === 0b10) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return Math.max(0, length - back)
  }
  return 0
}
