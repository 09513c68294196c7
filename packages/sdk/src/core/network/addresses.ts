/** An address or a network. `single`: it has the whole prefix. */
export interface Address {
  /** Without the prefix. IPv6 in its shortest form. */
  readonly address: string
  readonly cidr: string
  readonly single: boolean
  /** The network's first address, if this one has bits beyond the prefix. */
  readonly network?: string
  /** An IPv4 address inside of an IPv6 one, which a rule for IPv4 covers. */
  readonly mapped: boolean
}

/** Returns undefined if the text is neither. IPv4 only with four decimal numbers. */
export function addressOf(text: string): Address | undefined {
  const [given = '', prefixText, more] = text.split('/')
  if (more !== undefined) return undefined
  const bits = bitsOf(given)
  if (!bits) return undefined
  const width = bits.length * 8
  if (prefixText !== undefined && !/^(0|[1-9]\d{0,2})$/.test(prefixText)) return undefined
  const prefix = prefixText === undefined ? width : Number(prefixText)
  if (prefix > width) return undefined
  const first = bits.map((byte, at) => byte & masked(prefix - at * 8))
  const address = textOf(bits)
  const same = first.every((byte, at) => byte === bits[at])
  return {
    address,
    cidr: `${address}/${prefix}`,
    single: prefix === width,
    ...(same ? {} : { network: `${textOf(first)}/${prefix}` }),
    mapped:
      bits.length === 16 &&
      bits.slice(0, 10).every((byte) => byte === 0) &&
      bits[10] === 255 &&
      bits[11] === 255,
  }
}

function masked(bits: number): number {
  return bits >= 8 ? 255 : bits <= 0 ? 0 : (255 << (8 - bits)) & 255
}

function bitsOf(text: string): number[] | undefined {
  if (text.length > 45) return undefined
  if (!text.includes(':')) {
    if (!/^(0|[1-9]\d{0,2})(\.(0|[1-9]\d{0,2})){3}$/.test(text)) return undefined
    const bytes = text.split('.').map(Number)
    return bytes.every((byte) => byte <= 255) ? bytes : undefined
  }
  if (!/^[0-9a-f:.]+$/i.test(text)) return undefined
  return bytesOf6(text)
}

/** A URL has the parser for IPv6. Its result has eight groups at most one `::`, and no dots. */
function bytesOf6(text: string): number[] | undefined {
  let short: string
  try {
    short = new URL(`http://[${text}]/`).hostname.slice(1, -1)
  } catch {
    return undefined
  }
  const [head = '', tail] = short.split('::')
  const groups = (part: string) =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
  const [front, back] = [groups(head), groups(tail ?? '')]
  const zeros = tail === undefined ? 0 : 8 - front.length - back.length
  return [...front, ...new Array<number>(zeros).fill(0), ...back].flatMap((group) => [
    group >> 8,
    group & 255,
  ])
}

function textOf(bytes: readonly number[]): string {
  if (bytes.length === 4) return bytes.join('.')
  const groups = []
  for (let at = 0; at < 16; at += 2) groups.push(((bytes[at]! << 8) | bytes[at + 1]!).toString(16))
  return new URL(`http://[${groups.join(':')}]/`).hostname.slice(1, -1)
}
