/** The zone file of the world: what its DNS servers answer. */
import { ALLOWED, DENIED, FOREIGN_RESOLVER, FRONT, HOST, METADATA, PROXY, WILD } from './addresses.ts'

export interface Answer {
  readonly type: 'A' | 'AAAA' | 'CNAME' | 'TXT'
  readonly value: string
  readonly ttl: number
}

const v4 = (value: string, ttl = 60): Answer => ({ type: 'A', value, ttl })
const v6 = (value: string, ttl = 60): Answer => ({ type: 'AAAA', value, ttl })
const cname = (value: string): Answer => ({ type: 'CNAME', value, ttl: 60 })

const zone: Readonly<Record<string, readonly Answer[]>> = {
  'allowed.example': [v4(ALLOWED), v6('2600:11::1:1')],
  'denied.example': [v4(DENIED), v6('2600:11::2:1')],
  'notallowed.example': [v4(DENIED)],
  'evilwild.example': [v4(DENIED)],
  'wild.example': [v4(DENIED)],
  // “allowed.example” with a Cyrillic “а”.
  'xn--llowed-2nf.example': [v4(DENIED)],
  'front.wild.example': [v4(FRONT)],
  'denied-front.example': [v4(FRONT)],
  'proxy.example': [v4(PROXY)],
  'model.sandkasten.internal': [v4(DENIED)],
  'doh.example': [v4(FOREIGN_RESOLVER)],
  'api.anthropic.com': [v4(ALLOWED)],
  'metadata.wild.example': [v4(METADATA)],
  'private.wild.example': [v4('10.20.0.5')],
  'lan.wild.example': [v4(HOST.lan)],
  'host.wild.example': [v4(HOST.public)],
  'loopback.wild.example': [v4('127.0.0.1'), v6('::1')],
  'zero.wild.example': [v4('0.0.0.0')],
  'mapped.wild.example': [v6(`::ffff:${METADATA}`)],
  'nat64.wild.example': [v6('64:ff9b::a9fe:a9fe')],
  'unique-local.wild.example': [v6('fd00:ec2::254')],
  // A public address first: a client and a gateway that look at the first answer only are misled.
  'mixed.wild.example': [v4(WILD), v4(METADATA), v4('10.20.0.5')],
  'six-to-four.wild.example': [v6('2002:a9fe:a9fe::1')],
  'host-nat64.wild.example': [v6('64:ff9b::b00:902')],
  'inside.example': [v4(METADATA)],
  'cname-inside.wild.example': [cname('inside.example')],
  'cname-loop.wild.example': [cname('cname-loop.wild.example')],
  'huge.wild.example': Array.from({ length: 200 }, (_, at) => v4(`11.9.${at >> 8}.${at & 255}`)),
}

const REBINDING = ['11.0.1.4', '10.20.0.5', METADATA, '127.0.0.1', HOST.lan] as const
let turn = 0

/** Undefined: the name does not exist. `silent`: no answer at all. */
export function answersFor(name: string): readonly Answer[] | 'silent' | undefined {
  if (name === 'slow.wild.example') return 'silent'
  // The answer changes with each question and may not be kept.
  if (name === 'rebind.wild.example') return [v4(REBINDING[turn++ % REBINDING.length]!, 0)]
  const chain = /^chain-(\d+)\.wild\.example$/.exec(name)
  const inwards = /^inwards-(\d+)\.wild\.example$/.exec(name)
  if (inwards)
    return [cname(inwards[1] === '0' ? 'inside.example' : `inwards-${Number(inwards[1]) - 1}.wild.example`)]
  if (chain) return chain[1] === '0' ? [v4(WILD)] : [cname(`chain-${Number(chain[1]) - 1}.wild.example`)]
  if (zone[name]) return zone[name]
  if (name.endsWith('.wild.example')) return [v4(WILD)]
  if (name.endsWith('.allowed.example')) return [v4(ALLOWED)]
  if (name.endsWith('.denied.example')) return [v4(DENIED), { type: 'TXT', value: 'answer', ttl: 0 }]
  if (name.endsWith('.arpa')) return []
  return undefined
}

/** The names in the stand-ins’ certificate. */
export const CERTIFIED = [
  'allowed.example',
  '*.allowed.example',
  '*.wild.example',
  'denied.example',
  '*.denied.example',
  'denied-front.example',
  'proxy.example',
  'doh.example',
  'api.anthropic.com',
]
