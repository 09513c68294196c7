/** A marker that the session's shell prints between commands, on both of its streams. */
export interface Marker {
  readonly kind: 'begin' | 'end'
  readonly commandId: string
  readonly exitCode: number
}

/**
 * Finds the markers in one stream of a session's shell. A marker is a separator, a word that nobody can guess, and a line:
 * `␞<nonce> end <command id> <exit code>\n`. Everything else is output, handed on as soon as it cannot be one.
 */
export class MarkedStream {
  readonly #start: Buffer
  #held: Buffer = Buffer.alloc(0)

  constructor(nonce: string) {
    this.#start = Buffer.from(`\x1e${nonce} `)
  }

  push(chunk: Uint8Array): Array<Buffer | Marker> {
    const found: Array<Buffer | Marker> = []
    let rest = Buffer.concat([this.#held, chunk])
    for (;;) {
      const at = rest.indexOf(this.#start)
      const end = at === -1 ? -1 : rest.indexOf(0x0a, at)
      if (at === -1 || end === -1) {
        const keep = at === -1 ? this.#partial(rest) : at
        if (keep > 0) found.push(rest.subarray(0, keep))
        this.#held = Buffer.from(rest.subarray(keep))
        return found
      }
      if (at > 0) found.push(rest.subarray(0, at))
      found.push(markerOf(rest.subarray(at + this.#start.length, end).toString()))
      rest = rest.subarray(end + 1)
    }
  }

  /** Whether the beginning of what may be a marker is held back. */
  get holds(): boolean {
    return this.#held.length > 0
  }

  /** What is left when the stream is over. */
  flush(): Buffer {
    const rest = this.#held
    this.#held = Buffer.alloc(0)
    return rest
  }

  /** Where the beginning of a marker may stand at the end. */
  #partial(rest: Buffer): number {
    const from = Math.max(0, rest.length - this.#start.length + 1)
    for (let at = rest.indexOf(0x1e, from); at !== -1; at = rest.indexOf(0x1e, at + 1))
      if (this.#start.subarray(0, rest.length - at).equals(rest.subarray(at))) return at
    return rest.length
  }
}

function markerOf(line: string): Marker {
  const [kind, commandId = '', exitCode = '0'] = line.split(' ')
  return { kind: kind === 'begin' ? 'begin' : 'end', commandId, exitCode: Number(exitCode) }
}
