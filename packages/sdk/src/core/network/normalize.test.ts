import { describe, expect, it } from 'vitest'
import type { NormalPolicy } from './normal.ts'
import { normalizeNetwork } from './normalize.ts'
import { placeholder, secret } from './secret.ts'

const allow = (...rules: unknown[]) => normalizeNetwork({ allow: rules }) as NormalPolicy
const transform = (match: object, headers: object = { a: 'b' }) =>
  normalizeNetwork({ allow: [], transform: [{ match, headers }] }) as NormalPolicy

describe('normalizeNetwork', () => {
  it('keeps none and open', () => {
    expect([normalizeNetwork('none'), normalizeNetwork('open')]).toEqual(['none', 'open'])
  })

  it.each([
    ['GitHub.com', { host: 'github.com' }],
    ['github.com.', { host: 'github.com' }],
    ['*.Bücher.example', { host: '*.xn--bcher-kva.example' }],
    ['github.com:22', { host: 'github.com', ports: [22] }],
    ['a_b.s3.example.com', { host: 'a_b.s3.example.com' }],
    ['198.51.100.0/24', { cidr: '198.51.100.0/24' }],
    ['198.51.100.7', { cidr: '198.51.100.7/32' }],
    ['198.51.100.7:5432', { cidr: '198.51.100.7/32', ports: [5432] }],
    ['198.51.100.0/24:5432', { cidr: '198.51.100.0/24', ports: [5432] }],
    ['0.0.0.0/0', { cidr: '0.0.0.0/0' }],
    ['2001:DB8:0:0::7', { cidr: '2001:db8::7/128' }],
    ['2001:db8::/32', { cidr: '2001:db8::/32' }],
    ['::/0', { cidr: '::/0' }],
    ['[2001:db8::7]:443', { cidr: '2001:db8::7/128', ports: [443] }],
    ['[2001:db8::7]', { cidr: '2001:db8::7/128' }],
    ['preset:github', { preset: 'github' }],
    [
      { host: 'A.example', ports: [443, 80, 443], protocol: 'tls' },
      { host: 'a.example', ports: [80, 443], protocol: 'tls' },
    ],
    [
      { cidr: '10.0.0.5', ports: [1] },
      { cidr: '10.0.0.5/32', ports: [1] },
    ],
    [{ preset: 'packages' }, { preset: 'packages' }],
  ])('turns the rule %j into %j', (rule, expected) => {
    expect(allow(rule).allow).toEqual([expected])
  })

  it.each([
    ['', 'host name'],
    ['*', "network: 'open'"],
    ['*.*.example.com', '`*` inside'],
    ['api.*.com', '`*` inside'],
    ['*github.com', '`*` inside'],
    ['*.', 'host name'],
    ['https://github.com/a', 'Write only the host: "github.com"'],
    ['github.com/a', 'not a host name'],
    ['github.com:', 'no port'],
    ['github.com:0', 'no port'],
    ['github.com:65536', 'no port'],
    ['github.com:https', 'no port'],
    ['user@github.com', 'not a host name'],
    ['git hub.com', 'not a host name'],
    ['github.com\n', 'not a host name'],
    ['github%2ecom', 'not a host name'],
    ['-a.com', 'not a host name'],
    ['a..com', 'not a host name'],
    [`${'a'.repeat(64)}.com`, 'not a host name'],
    [`${'a.'.repeat(127)}com`, 'not a host name'],
    ['x'.repeat(100_000), 'not a host name'],
    ['2130706433', 'unusual form of the address 127.0.0.1'],
    ['0x7f.1', 'unusual form of the address 127.0.0.1'],
    ['017700000001', 'unusual form of the address 127.0.0.1'],
    ['１２７.0.0.1', 'unusual form of the address 127.0.0.1'],
    ['256.1.1.1', 'not a host name'],
    ['198.51.100.7/24', 'Write 198.51.100.0/24 for the network'],
    ['2001:db8::7/32', 'Write 2001:db8::/32 for the network'],
    ['198.51.100.0/33', 'neither an address'],
    ['198.51.100.0/024', 'neither an address'],
    ['2001:db8::/129', 'neither an address'],
    ['::ffff:10.0.0.1', 'Write the IPv4 address'],
    ['fe80::1%eth0', 'neither an address'],
    ['[github.com]:443', 'neither an address'],
    ['1:2:3', 'neither an address'],
    ['localhost', 'services'],
    ['model.sandkasten.internal', 'service'],
    ['*.sandkasten.internal', 'service'],
    ['preset:gitlab', 'preset:github'],
    [{ preset: 'github', ports: [22] }, 'preset'],
    [{ host: 'a.com', cidr: '10.0.0.0/8' }, 'not a rule'],
    [{}, 'not a rule'],
    [null, 'not a rule'],
    [undefined, 'not a rule'],
    [7, 'not a rule'],
    [{ host: 'a.com', port: 1 }, 'Did you mean `ports`'],
    [{ host: 'a.com', ports: [] }, 'ports'],
    [{ host: 'a.com', ports: [0] }, 'ports'],
    [{ host: 'a.com', ports: ['80'] }, 'ports'],
    // biome-ignore lint/suspicious/noSparseArray: a hole is a wrong value.
    [{ host: 'a.com', ports: [80, ,] }, 'ports'],
    [{ host: 'a.com', protocol: 'udp' }, 'tls, http or tcp'],
    [{ cidr: '10.0.0.0/8', protocol: 'tcp' }, 'protocol'],
    [{ cidr: 7 }, 'neither an address'],
  ])('rejects the rule %j and names it', (rule, words) => {
    const error = failure(() => allow('a.example', rule))
    expect(error.code).toBe('invalid_argument')
    expect(error.message).toContain('network.allow[1]')
    expect(`${error.message} ${error.hint}`).toContain(words)
    expect(error.message.length).toBeLessThan(400)
  })

  it('rejects presets in deny', () => {
    expect(failure(() => normalizeNetwork({ allow: [], deny: ['preset:github'] })).message).toContain(
      'network.deny[0]',
    )
  })

  it.each([
    [undefined, 'network'],
    [null, 'network'],
    ['bridge', 'bridge'],
    [[], 'network'],
    [{}, 'allow'],
    [{ allow: 'github.com' }, 'array'],
    [{ allow: new Array(1001).fill('a.com') }, '1001'],
    [{ allow: new Array(600).fill('a.com'), deny: new Array(401).fill('b.com') }, '1001'],
    [{ allow: [], denied: [] }, 'denied'],
    [{ allow: [], audit: 'yes' }, 'audit'],
    [{ allow: [], transform: new Array(101).fill({}) }, '101'],
    [{ allow: [], limits: { connections: 0 } }, 'connections'],
    [{ allow: [], limits: { bytes: 1.5 } }, 'bytes'],
    [{ allow: [], limits: { bandwidth: 1 } }, 'bandwidth'],
    [{ allow: [], limits: [] }, 'limits'],
    [{ allow: [], services: [] }, 'services'],
    [{ allow: [], services: { Model: { host: '127.0.0.1', port: 1 } } }, 'Model'],
    [{ allow: [], services: { model: { host: '127.0.0.1' } } }, 'port'],
    [{ allow: [], services: { model: { host: '10.0.0.0/8', port: 1 } } }, 'one address'],
    [{ allow: [], services: { model: { host: 'a b', port: 1 } } }, 'services'],
    [{ allow: [], services: { model: '127.0.0.1:1' } }, 'model'],
    [
      { allow: [], services: Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`s${at}`, {}])) },
      '51',
    ],
  ])('rejects %.100j', (network, word) => {
    const error = failure(() => normalizeNetwork(network))
    expect(error.code).toBe('invalid_argument')
    expect(`${error.message} ${error.hint}`).toContain(word)
  })

  it('normalizes transforms, services and limits, and a second time changes nothing', () => {
    const normal = normalizeNetwork({
      allow: ['api.GitHub.com', '198.51.100.7', 'preset:openai'],
      deny: ['gist.github.com'],
      transform: [
        {
          match: { host: 'API.github.com', path: '/repos/', method: 'get' },
          headers: { Authorization: secret('github', { prefix: 'Bearer ' }), 'X-Team': 'a' },
        },
      ],
      services: { model: { host: '127.0.0.1', port: 8899 }, db: { host: 'LOCALHOST', port: 1 } },
      limits: { connections: 5, bytes: undefined },
    })
    expect(normal).toEqual({
      allow: [{ host: 'api.github.com' }, { cidr: '198.51.100.7/32' }, { preset: 'openai' }],
      deny: [{ host: 'gist.github.com' }],
      transform: [
        {
          match: { host: 'api.github.com', path: '/repos/', methods: ['GET'] },
          headers: { authorization: { secret: 'github', prefix: 'Bearer ' }, 'x-team': 'a' },
        },
      ],
      services: { model: { host: '127.0.0.1', port: 8899 }, db: { host: 'localhost', port: 1 } },
      audit: false,
      limits: { connections: 5 },
    })
    expect(normalizeNetwork(JSON.parse(JSON.stringify(normal)))).toEqual(normal)
    expect(() => ((normal as NormalPolicy).allow as unknown[]).push('x')).toThrow()
  })

  it.each([
    [{ host: '10.0.0.1' }, { a: 'b' }, 'address'],
    [{ host: 'a.com', path: 'repos' }, { a: 'b' }, 'path'],
    [{ host: 'a.com', path: '/a?b' }, { a: 'b' }, 'path'],
    [{ host: 'a.com', path: '/a\r\nb' }, { a: 'b' }, 'path'],
    [{ host: 'a.com', method: '' }, { a: 'b' }, 'method'],
    [{ host: 'a.com', method: [] }, { a: 'b' }, 'method'],
    [{ host: 'a.com', method: 'G T' }, { a: 'b' }, 'method'],
    [{ host: 'a.com', method: 'GET', methods: ['GET'] }, { a: 'b' }, 'both'],
    [{ host: 'a.com', query: 'x' }, { a: 'b' }, 'query'],
    [{ host: 'a.com' }, {}, '0 headers'],
    [{ host: 'a.com' }, Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`h${at}`, ''])), '51'],
    [{ host: 'a.com' }, { 'a b': 'c' }, 'invalid name'],
    [{ host: 'a.com' }, { 'a\r\n': 'c' }, 'invalid name'],
    [{ host: 'a.com' }, { Host: 'c' }, 'host'],
    [{ host: 'a.com' }, { 'Transfer-Encoding': 'chunked' }, 'transfer-encoding'],
    // The gateway refuses these, too: it must read the answers.
    [{ host: 'a.com' }, { 'Accept-Encoding': 'gzip' }, 'accept-encoding'],
    [{ host: 'a.com' }, { Range: 'bytes=0-1' }, 'range'],
    [{ host: 'a.com' }, { a: '1', A: '2' }, 'twice'],
    [{ host: 'a.com' }, { a: 7 }, 'secret'],
    [{ host: 'a.com' }, { a: { secret: '../x' } }, 'name of a secret'],
    [{ host: 'a.com' }, { a: { secret: 'x', value: 'v' } }, 'value'],
    [{ host: 'a.com' }, { a: { secret: 'x', prefix: 'a\n' } }, 'prefix'],
    [{ host: 'a.com' }, { a: { secret: 'x', basic: 'u', prefix: 'p' } }, 'alone'],
    [{ host: 'a.com' }, { a: { secret: 'x', basic: 'u:p' } }, 'colon'],
  ])('rejects the transform %j %.60j', (match, headers, word) => {
    const error = failure(() => transform(match, headers))
    expect(error.message).toContain('network.transform[0]')
    expect(`${error.message} ${error.hint}`).toContain(word)
  })

  it.each(['a\r\nb', 'a\nb', 'a\0b', 'ü', 'x'.repeat(8001)])(
    'rejects a header value and does not show it',
    (value) => {
      const error = failure(() => transform({ host: 'a.com' }, { authorization: value }))
      expect(error.code).toBe('invalid_argument')
      expect(JSON.stringify([error.message, error.hint, error.details])).not.toContain(
        JSON.stringify(value).slice(1, -1),
      )
    },
  )
})

describe('secret', () => {
  it('names a secret, and never has a value', () => {
    expect(secret('git.hub-1', { basic: 'x-access-token' })).toEqual({
      secret: 'git.hub-1',
      basic: 'x-access-token',
    })
    expect(placeholder('github')).toBe('sandkasten-secret-github')
  })

  it.each(['', '-a', 'a b', 'a/b', 'x'.repeat(65), 7])('rejects the name %j without showing it', (name) => {
    expect(failure(() => secret(name as string)).code).toBe('invalid_argument')
    expect(failure(() => placeholder(name as string)).code).toBe('invalid_argument')
  })

  it('rejects unknown options', () => {
    expect(failure(() => secret('a', { perfix: 'x' } as never)).hint).toContain('prefix')
  })
})

function failure(call: () => unknown): { code: string; message: string; hint: string; details: unknown } {
  try {
    call()
  } catch (error) {
    return error as never
  }
  throw new Error('It did not throw.')
}
