import { concat } from '../shared/bytes.ts'

/** What came back for a request. */
export interface Answer {
  readonly status: number
  readonly headers: Array<[name: string, value: string]>
  readonly text: string
  /** For how many milliseconds more the other side keeps the connection for the next request; 0: it does not. */
  readonly keepMs: number
}

const mostHead = 65_536
const mostLine = 4_096

/**
 * Takes HTTP/1.1 answers off a connection, one after another, however the bytes are cut. It is strict: whatever is not plainly an answer is an error, and
 * then the connection is of no more use.
 */
export class AnswerReader {
  #state: State = { take: (bytes) => this.#takeHead(bytes) }
  #rest: Uint8Array = new Uint8Array()
  #parts: Uint8Array[] = []
  #head: Head | undefined
  #done: Answer | undefined

  /** The answer, once it is whole. Bytes after it are an error: nothing else was asked for. */
  push(chunk: Uint8Array): Answer | undefined {
    let bytes = this.#rest.length === 0 ? chunk : concat([this.#rest, chunk])
    this.#rest = new Uint8Array()
    while (bytes.length > 0) {
      if (this.#done) throw new Error('more came than was asked for')
      const used = this.#state.take(bytes)
      if (used === 0) {
        this.#rest = bytes
        break
      }
      bytes = bytes.subarray(used)
    }
    const done = this.#done
    this.#done = undefined
    return done
  }

  /** The connection has ended: that is how some answers end. Undefined when something is missing. */
  end(): Answer | undefined {
    if (!this.#state.untilEnd) return undefined
    this.#finish()
    return this.#done
  }

  #takeHead(bytes: Uint8Array): number {
    const found = takeHead(bytes)
    if (!found) return 0
    // An interim response such as “100 Continue”: the answer is still to come.
    if (found.head.status >= 200) this.#begin(found.head)
    return found.bodyAt
  }

  #begin(head: Head): void {
    this.#head = head
    const { status, length, chunked } = head
    if (status === 204 || status === 304 || length === 0) this.#finish()
    else if (chunked) this.#state = { take: (bytes) => this.#takeSize(bytes) }
    else if (length === undefined) this.#state = { take: (bytes) => this.#keep(bytes), untilEnd: true }
    else this.#takeExactly(length, () => this.#finish())
  }

  #takeExactly(length: number, then: () => void): void {
    let left = length
    const take = (bytes: Uint8Array) => {
      const part = bytes.subarray(0, left)
      this.#keep(part)
      left -= part.length
      if (left === 0) then()
      return part.length
    }
    this.#state = { take }
  }

  #takeSize(bytes: Uint8Array): number {
    return this.#line(bytes, (line) => {
      const [, digits] = /^([0-9a-f]{1,12})[\t ]*(?:;.*)?$/i.exec(line) ?? []
      if (digits === undefined) throw new Error('the length of a piece is none')
      const size = Number.parseInt(digits, 16)
      if (size === 0) this.#state = { take: (rest) => this.#takeTrailer(rest) }
      else this.#takeExactly(size, () => this.#takeBreak())
    })
  }

  #takeBreak(): void {
    const take = (bytes: Uint8Array) =>
      this.#line(bytes, (line) => {
        if (line !== '') throw new Error('a piece is longer than it says')
        this.#state = { take: (rest) => this.#takeSize(rest) }
      })
    this.#state = { take }
  }

  #takeTrailer(bytes: Uint8Array): number {
    return this.#line(bytes, (line) => {
      if (line === '') this.#finish()
    })
  }

  #line(bytes: Uint8Array, use: (line: string) => void): number {
    const end = bytes.indexOf(0x0a)
    if (end > mostLine || (end < 0 && bytes.length > mostLine)) throw new Error('a line is too long')
    if (end < 0) return 0
    if (bytes[end - 1] !== 0x0d) throw new Error('a line ends without a carriage return')
    use(latin1(bytes.subarray(0, end - 1)))
    return end + 1
  }

  #keep(part: Uint8Array): number {
    this.#parts.push(part)
    return part.length
  }

  #finish(): void {
    const { status, headers, keepMs } = this.#head!
    const parts = this.#parts
    const text = utf8.decode(parts.length === 1 ? parts[0] : concat(parts))
    this.#done = { status, headers, text, keepMs: this.#state.untilEnd ? 0 : keepMs }
    this.#parts = []
    this.#head = undefined
    this.#state = { take: (bytes) => this.#takeHead(bytes) }
  }
}

interface State {
  /** How many of the bytes it has taken; 0 when it needs more of them. */
  take(bytes: Uint8Array): number
  untilEnd?: boolean
}

export interface Head {
  readonly status: number
  readonly headers: Array<[string, string]>
  readonly length: number | undefined
  readonly chunked: boolean
  readonly keepMs: number
}

/** The head at the beginning of these bytes, and where the body begins. Undefined: some of it is missing. */
export function takeHead(bytes: Uint8Array): { head: Head; bodyAt: number } | undefined {
  const end = endOfHead(bytes)
  if (end >= 0) return { head: readHead(latin1(bytes.subarray(0, end))), bodyAt: end + 4 }
  if (bytes.length > mostHead) throw new Error('the head of the answer is too long')
  return undefined
}

function readHead(text: string): Head {
  const [first = '', ...lines] = text.split('\r\n')
  const [, minor, digits] = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: |$)/.exec(first) ?? []
  if (digits === undefined) throw new Error('this is no answer of HTTP/1.1')
  const head = {
    length: undefined as number | undefined,
    chunked: false,
    closes: minor === '0',
    keepMs: 5000,
  }
  const headers = lines.map((line): [string, string] => {
    const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):[\t ]*(.*?)[\t ]*$/.exec(line) ?? []
    if (name === undefined) throw new Error('a header of the answer is none')
    const known = name.toLowerCase()
    mind(head, known, value!)
    return [known, value!]
  })
  const { length, chunked, closes, keepMs } = head
  if (chunked && length !== undefined) throw new Error('the answer is sent in a way that is not understood')
  return { status: Number(digits), headers, length, chunked, keepMs: closes ? 0 : keepMs }
}

/** What a header says of how the answer is sent. */
function mind(
  head: { length: number | undefined; chunked: boolean; closes: boolean; keepMs: number },
  name: string,
  value: string,
): void {
  if (name === 'content-length') {
    const length = /^\d{1,15}$/.test(value) ? Number(value) : undefined
    if (length === undefined || (head.length ?? length) !== length)
      throw new Error('the length of the answer is none')
    head.length = length
  } else if (name === 'transfer-encoding') {
    if (head.chunked || value.toLowerCase() !== 'chunked')
      throw new Error('the answer is sent in a way that is not understood')
    head.chunked = true
  } else if (name === 'connection') head.closes ||= /\bclose\b/i.test(value)
  else if (name === 'keep-alive') {
    const seconds = /\btimeout=(\d{1,6})/.exec(value)?.[1]
    if (seconds !== undefined) head.keepMs = Number(seconds) * 1000
  }
}

/** Where the empty line begins; -1 when there is none yet. */
function endOfHead(bytes: Uint8Array): number {
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1))
    if (bytes[at - 1] === 0x0d && bytes[at + 1] === 0x0d && bytes[at + 2] === 0x0a) return at - 1
  return -1
}

function latin1(bytes: Uint8Array): string {
  return oneByteEach.decode(bytes)
}

const oneByteEach = new TextDecoder('latin1')
const utf8 = new TextDecoder()
