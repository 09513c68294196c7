/** A marker that the session's shell prints between commands, on both of its streams. */
export interface Marker {
  readonly kind: 'begin' | 'end'
  readonly execId: string
  readonly exitCode: number
}

/** The maximum length of a marker. Longer text is output, so a sandbox cannot make the daemon buffer more. */
const mostBytes = 256

/**
 * Finds the markers in one stream of a session's shell. A marker is a separator, a nonce and a line:
 * `␞<nonce> end <command id> <exit code>\n`. All other text is output, passed on as soon as it cannot be a marker.
 * Code in the sandbox can find the nonce and forge markers of its own session, so the format is checked strictly.
 */
export class MarkedStream {
  readonly #start: Buffer
  #held: Buffer = Buffer.alloc(0)

  constructor(nonce: string) {
    this.#start = Buffer.from(`\x1e${nonce} `)
  }

  push(chunk: Uint8Array): Array<Buffer | Marker> {
    const found: Array<Buffer | Marker> = []
    const rest = Buffer.concat([this.#held, chunk])
    let told = 0
    let from = 0
    for (;;) {
      const at = rest.indexOf(this.#start, from)
      const line = at === -1 ? rest.subarray(rest.length) : rest.subarray(at, at + mostBytes)
      const end = line.indexOf(0x0a)
      if (end === -1 && line.length < mostBytes) {
        const keep = at === -1 ? this.#partial(rest) : at
        if (keep > told) found.push(rest.subarray(told, keep))
        this.#held = Buffer.from(rest.subarray(keep))
        return found
      }
      const marker = markerOf(line.subarray(this.#start.length, Math.max(end, 0)).toString('latin1'))
      from = marker ? at + end + 1 : at + 1
      if (!marker) continue
      if (at > told) found.push(rest.subarray(told, at))
      found.push(marker)
      told = from
    }
  }

  /** Whether the beginning of a possible marker is buffered. */
  get holds(): boolean {
    return this.#held.length > 0
  }

  /** Returns the buffered output at the end of the stream. */
  flush(): Buffer {
    const rest = this.#held
    this.#held = Buffer.alloc(0)
    return rest
  }

  /** The index of a possible beginning of a marker at the end of the chunk. */
  #partial(rest: Buffer): number {
    const from = Math.max(0, rest.length - this.#start.length + 1)
    for (let at = rest.indexOf(0x1e, from); at !== -1; at = rest.indexOf(0x1e, at + 1))
      if (this.#start.subarray(0, rest.length - at).equals(rest.subarray(at))) return at
    return rest.length
  }
}

function markerOf(line: string): Marker | undefined {
  const [, kind, execId, exitCode] = /^(begin|end) ([\w-]{1,64}) (\d{1,3})$/.exec(line) ?? []
  if (kind === undefined) return undefined
  return { kind: kind as Marker['kind'], execId: execId!, exitCode: Number(exitCode) }
}
