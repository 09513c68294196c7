/**
 * Bodies of control frames: the strict CBOR subset of protocol/runner.md.
 *
 * All input comes from inside a sandbox. So depth, the number of values and every length are bounded. A value has exactly
 * one encoding, and every other encoding is refused.
 */
import { ProtocolError } from './errors.ts'

export type CborValue = null | boolean | number | string | Uint8Array | CborValue[] | CborMap
export interface CborMap {
  [key: string]: CborValue | undefined
}

const maxDepth = 16
const maxItems = 65_536
const maxFields = 4096

/** Omits `undefined` fields. Supports only integers. */
export function encodeCbor(value: CborValue): Uint8Array {
  const writer = new Writer()
  writer.value(value)
  return writer.bytes()
}

/** Returns maps without a prototype, so that no key can reach one. */
export function decodeCbor(bytes: Uint8Array): CborValue {
  const reader = new Reader(bytes)
  const value = reader.value(0)
  if (!reader.done) throw new ProtocolError('malformed', 'bytes after the end of a body')
  return value
}

export function decodeMap(bytes: Uint8Array): CborMap {
  const value = decodeCbor(bytes)
  if (!isMap(value)) throw new ProtocolError('malformed', 'a body that is not a map')
  return value
}

export function isMap(value: CborValue | undefined): value is CborMap {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
  )
}

class Writer {
  #buffer = Buffer.allocUnsafe(256)
  #length = 0

  bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.#length)
  }

  value(value: CborValue): void {
    if (value === null) this.#byte(0xf6)
    else if (typeof value === 'boolean') this.#byte(value ? 0xf5 : 0xf4)
    else if (typeof value === 'number') this.#integer(value)
    else if (typeof value === 'string') this.#text(value)
    else if (value instanceof Uint8Array) {
      this.#head(2, value.length)
      this.#raw(value)
    } else if (Array.isArray(value)) {
      this.#head(4, value.length)
      for (const item of value) this.value(item)
    } else {
      const fields = Object.entries(value).filter(
        (field): field is [string, CborValue] => field[1] !== undefined,
      )
      this.#head(5, fields.length)
      for (const [key, item] of fields) {
        this.#text(key)
        this.value(item)
      }
    }
  }

  #integer(value: number): void {
    if (!Number.isSafeInteger(value)) throw new TypeError('only safe integers can be sent')
    if (value >= 0) this.#head(0, value)
    else this.#head(1, -1 - value)
  }

  #text(value: string): void {
    const bytes = Buffer.from(value, 'utf8')
    this.#head(3, bytes.length)
    this.#raw(bytes)
  }

  #head(major: number, argument: number): void {
    const high = major << 5
    this.#reserve(9)
    if (argument < 24) this.#length = this.#buffer.writeUInt8(high | argument, this.#length)
    else if (argument < 0x100) {
      this.#length = this.#buffer.writeUInt8(high | 24, this.#length)
      this.#length = this.#buffer.writeUInt8(argument, this.#length)
    } else if (argument < 0x1_0000) {
      this.#length = this.#buffer.writeUInt8(high | 25, this.#length)
      this.#length = this.#buffer.writeUInt16BE(argument, this.#length)
    } else if (argument < 0x1_0000_0000) {
      this.#length = this.#buffer.writeUInt8(high | 26, this.#length)
      this.#length = this.#buffer.writeUInt32BE(argument, this.#length)
    } else {
      this.#length = this.#buffer.writeUInt8(high | 27, this.#length)
      this.#length = this.#buffer.writeBigUInt64BE(BigInt(argument), this.#length)
    }
  }

  #byte(byte: number): void {
    this.#reserve(1)
    this.#length = this.#buffer.writeUInt8(byte, this.#length)
  }

  #raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length)
    this.#buffer.set(bytes, this.#length)
    this.#length += bytes.length
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + more))
    larger.set(this.bytes())
    this.#buffer = larger
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

class Reader {
  readonly #bytes: Buffer
  #at = 0
  #items = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  }

  get done(): boolean {
    return this.#at === this.#bytes.length
  }

  value(depth: number): CborValue {
    this.#items += 1
    if (depth > maxDepth || this.#items > maxItems) throw malformed('a body with too many values')
    const first = this.#take(1)[0] as number
    const major = first >> 5
    const info = first & 31
    if (major === 7) {
      if (info === 20) return false
      if (info === 21) return true
      if (info === 22) return null
      throw malformed('a value kind that is not in the protocol')
    }
    const argument = this.#argument(info)
    switch (major) {
      case 0:
        return argument
      case 1:
        return -1 - argument
      case 2:
        // A copy: a short value must not keep the shared frame buffer alive.
        return Uint8Array.from(this.#take(argument))
      case 3:
        return this.#text(argument)
      case 4:
        return this.#array(argument, depth)
      case 5:
        return this.#map(argument, depth)
      default:
        throw malformed('a value kind that is not in the protocol')
    }
  }

  #array(length: number, depth: number): CborValue[] {
    const items: CborValue[] = []
    for (let index = 0; index < length; index++) items.push(this.value(depth + 1))
    return items
  }

  #map(length: number, depth: number): CborMap {
    if (length > maxFields) throw malformed('a map with too many fields')
    const map: CborMap = Object.create(null)
    for (let index = 0; index < length; index++) {
      const first = this.#take(1)[0] as number
      if (first >> 5 !== 3) throw malformed('a map key that is not text')
      const key = this.#text(this.#argument(first & 31))
      if (key in map) throw malformed('a map with the same key twice')
      map[key] = this.value(depth + 1)
    }
    return map
  }

  #text(length: number): string {
    try {
      return utf8.decode(this.#take(length))
    } catch (error) {
      if (error instanceof ProtocolError) throw error
      throw malformed('text that is not UTF-8')
    }
  }

  #argument(info: number): number {
    if (info < 24) return info
    if (info > 27) throw malformed('an indefinite length')
    const width = 1 << (info - 24)
    const bytes = this.#take(width)
    const argument = width === 8 ? Number(bytes.readBigUInt64BE()) : bytes.readUIntBE(0, width)
    if (argument < (info === 24 ? 24 : 2 ** (4 * width)))
      throw malformed('a length that is not in shortest form')
    if (!Number.isSafeInteger(argument)) throw malformed('an integer that is too large')
    return argument
  }

  #take(length: number): Buffer {
    if (length > this.#bytes.length - this.#at) throw malformed('a body that ends early')
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }
}

function malformed(message: string): ProtocolError {
  return new ProtocolError('malformed', message)
}
