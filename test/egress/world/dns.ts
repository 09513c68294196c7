/** A DNS server for tests: its questions come from the gateway and from the tests’ own scripts. */
import { type Answer, answersFor } from './names.ts'

const TYPES = { A: 1, CNAME: 5, TXT: 16, AAAA: 28 } as const
const ANY = 255

/** Undefined: no answer. */
export function answerTo(query: Buffer, overTcp: boolean): Buffer | undefined {
  const { name, type, end } = questionOf(query)
  const answers = answersFor(name)
  if (answers === 'silent') return undefined
  const chosen = chain(answers ?? [], type)
  const records = chosen.map((answer) => recordOf(answer))
  const body = Buffer.concat(records)
  const fits = overTcp || body.length < 1100
  const header = Buffer.from(query.subarray(0, 12))
  header.writeUInt16BE(0x8180 | (fits ? 0 : 0x0200) | (answers === undefined ? 3 : 0), 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(fits ? records.length : 0, 6)
  header.fill(0, 8, 12)
  return Buffer.concat([header, query.subarray(12, end), ...(fits ? [body] : [])])
}

/** The first question, in lower case. */
export function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query[at]!; length > 0 && length < 64; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length).toLowerCase())
    at += 1 + length
  }
  return { name: labels.join('.'), type: query.readUInt16BE(at + 1), end: at + 5 }
}

/** The records of the type, and the aliases that lead to them, as a recursive resolver answers. */
function chain(answers: readonly Answer[], type: number): OwnedAnswer[] {
  const found: OwnedAnswer[] = []
  let current: readonly Answer[] = answers
  let owner: string | undefined
  for (let hops = 0; hops < 16; hops += 1) {
    for (const answer of current)
      if (TYPES[answer.type] === type || type === ANY) found.push({ ...answer, owner })
    const alias = current.find((answer) => answer.type === 'CNAME')
    if (!alias || type === TYPES.CNAME) return found
    found.push({ ...alias, owner })
    owner = alias.value
    const next = answersFor(alias.value)
    current = Array.isArray(next) ? next : []
  }
  return found
}

interface OwnedAnswer extends Answer {
  /** Undefined: the name of the question. */
  readonly owner: string | undefined
}

function recordOf({ type, value, ttl, owner }: OwnedAnswer): Buffer {
  const data = dataOf(type, value)
  const fixed = Buffer.alloc(10)
  fixed.writeUInt16BE(TYPES[type], 0)
  fixed.writeUInt16BE(1, 2)
  fixed.writeUInt32BE(ttl, 4)
  fixed.writeUInt16BE(data.length, 8)
  return Buffer.concat([owner === undefined ? Buffer.from([0xc0, 12]) : nameBytes(owner), fixed, data])
}

function dataOf(type: Answer['type'], value: string): Buffer {
  if (type === 'A') return Buffer.from(value.split('.').map(Number))
  if (type === 'AAAA') return v6Bytes(value)
  if (type === 'TXT') return Buffer.concat([Buffer.from([value.length]), Buffer.from(value)])
  return nameBytes(value)
}

function nameBytes(name: string): Buffer {
  const labels = name
    .split('.')
    .map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]))
  return Buffer.concat([...labels, Buffer.from([0])])
}

function v6Bytes(text: string): Buffer {
  // The URL parser writes a dotted tail as two groups.
  const plain = new URL(`http://[${text}]`).hostname.slice(1, -1)
  const [head = '', tail] = plain.split('::')
  const groups = (part: string) =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
  const [before, after] = [groups(head), groups(tail ?? '')]
  const all = [...before, ...Array(8 - before.length - after.length).fill(0), ...after]
  return Buffer.from(all.flatMap((group: number) => [group >> 8, group & 255]))
}
