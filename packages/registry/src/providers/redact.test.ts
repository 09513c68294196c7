import { inspect } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { describe, expect, it } from 'vitest'
import { redactor } from './redact.ts'

const secret = 'dtn_abc+/=:secret$1\\d'
const privateKey = `-----BEGIN OPENSSH PRIVATE KEY-----\n${'abcdefgh'.repeat(8)}\n${'ijklmnop'.repeat(8)}\n-----END OPENSSH PRIVATE KEY-----\n`

const shownOf = (error: unknown) =>
  inspect(error, { depth: 20, showHidden: true, maxStringLength: null }) +
  JSON.stringify(error) +
  String((error as Error).stack)

describe('a redactor', () => {
  it('removes a secret from every part of an error, and keeps the rest', () => {
    class Response {
      readonly headers = { authorization: `Bearer ${secret}` }
    }
    const cause = Object.assign(
      new Error(`GET /?key=${encodeURIComponent(secret)} failed`, { cause: `with ${secret}` }),
      {
        config: { headers: { Authorization: `Bearer ${secret}` }, url: 'https://api.example' },
        response: new Response(),
        body: Buffer.from(`{"key":"${secret}"}`),
        status: 401,
        [Symbol('key')]: secret,
        request: { [Symbol('headers')]: secret },
        errors: [new AggregateError([new Error(secret)], secret)],
      },
    )
    const given = new SandboxError('rate_limited', `refused ${secret}`, {
      cause,
      provider: 'daytona',
      hint: `use another key than ${secret}`,
      details: {
        retryAfterMs: 2000,
        [secret]: [{ key: secret }],
        base64: Buffer.from(secret).toString('base64'),
      },
    })
    // The stack is formatted when it is first read.
    expect(given.stack! + cause.stack!).toContain(secret)
    const error = redactor([secret]).error(given)
    expect(error).toBe(given)
    for (const form of [secret, encodeURIComponent(secret), Buffer.from(secret).toString('base64url')])
      expect(shownOf(error)).not.toContain(form)
    expect(error).toMatchObject({
      code: 'rate_limited',
      message: 'refused [redacted]',
      hint: 'use another key than [redacted]',
      retryable: true,
      provider: 'daytona',
      details: { retryAfterMs: 2000, '[redacted]': [{ key: '[redacted]' }] },
      cause: {
        message: 'GET /?key=[redacted] failed',
        cause: 'with [redacted]',
        status: 401,
        [Symbol('key')]: secret,
        request: { [Symbol('headers')]: secret },
        config: { headers: { Authorization: 'Bearer [redacted]' }, url: 'https://api.example' },
        response: '[omitted]',
        body: '[omitted]',
      },
    })
    expect(SandboxError.is(error, 'rate_limited')).toBe(true)
  })

  it('does not change objects that an error shares with others', () => {
    const config = { headers: { Authorization: secret } }
    redactor([secret]).error(Object.assign(new Error('failed'), { config }))
    expect(config.headers.Authorization).toBe(secret)
  })

  it('leaves an error without secrets as it is', () => {
    const details = { stdout: new Uint8Array(8), list: [{ deep: 'text' }], at: new Date() }
    const given = new SandboxError('timeout', 'text', { details })
    const stack = given.stack
    const error = redactor([secret]).error(given) as SandboxError
    expect(error).toBe(given)
    expect(error.details).toBe(details)
    expect(error.stack).toBe(stack)
  })

  it('removes single lines of a private key', () => {
    const { text } = redactor([privateKey])
    expect(text(`bad line: ${'ijklmnop'.repeat(8)}`)).toBe('bad line: [redacted]')
    expect(text(JSON.stringify({ privateKey: privateKey.trim() }))).toBe('{"privateKey":"[redacted]"}')
    expect(text('-----BEGIN OPENSSH PRIVATE KEY-----')).toContain('BEGIN')
  })

  it('ignores values that are too short to be meant', () => {
    expect(redactor(['abcde', '']).text('abcde')).toBe('abcde')
    expect(redactor(['abcdef']).text('abcdef')).toBe('[redacted]')
  })

  it('prefers the longer of two secrets', () => {
    expect(redactor(['secret', 'secret-and-more']).text('secret-and-more')).toBe('[redacted]')
  })

  it('cleans frozen errors, strings and other thrown values', () => {
    const { error } = redactor([secret])
    const frozen = error(Object.freeze(new SandboxError('forbidden', `frozen ${secret}`)))
    expect(frozen).toMatchObject({ code: 'forbidden', message: 'frozen [redacted]' })
    expect(shownOf(frozen)).not.toContain(secret)
    expect(error(`text ${secret}`)).toBe('text [redacted]')
    expect(error({ key: secret })).toEqual({ key: '[redacted]' })
    expect(error(undefined)).toBe(undefined)
  })

  it('ends on cycles and on large errors, in bounded time', () => {
    const cycle: Record<string, unknown> = { secret }
    cycle.self = cycle
    let deep: object = { secret }
    for (let depth = 0; depth < 100_000; depth += 1) deep = { deep }
    const wide = Array.from({ length: 100_000 }, () => ({ secret }))
    const own = Object.assign(new Error(secret), { cycle, deep, wide, long: `${secret} `.repeat(100_000) })
    own.cause = own
    const before = performance.now()
    const error = redactor([secret]).error(own)
    expect(performance.now() - before).toBeLessThan(2_000)
    expect(error).toBe(own)
    expect(inspect(error, { depth: 20, showHidden: true, maxArrayLength: null })).not.toContain(secret)
  })
})
