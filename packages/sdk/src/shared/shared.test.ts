import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import type { SandboxInfo } from '../spec/index.ts'
import { abortable } from './calls/abort.ts'
import { cloneCommand } from './git-clone.ts'
import { nativeId, randomId } from './ids.ts'
import { asBytes, chunksOf, streamOf } from './output/bytes.ts'
import { HeadTail } from './output/collect.ts'
import { pageOf } from './page.ts'
import { quoteArgs } from './quote.ts'

describe('abortable', () => {
  it('handles a rejection after the call was given up, so that the process does not end', async () => {
    const unheard: unknown[] = []
    const listen = (reason: unknown) => void unheard.push(reason)
    process.on('unhandledRejection', listen)
    try {
      const { promise, reject } = Promise.withResolvers<void>()
      await expect(abortable(promise, AbortSignal.abort())).rejects.toMatchObject({ code: 'aborted' })
      reject(new Error('too late'))
      await new Promise((resolve) => setImmediate(resolve))
      expect(unheard).toEqual([])
    } finally {
      process.off('unhandledRejection', listen)
    }
  })
})

describe('HeadTail with a budget', () => {
  const budgetOf = (bytes: number) => {
    let free = bytes
    const take = (wanted: number) => {
      if (wanted > free) return false
      free -= wanted
      return true
    }
    return { take, free: () => free }
  }

  it('keeps everything while there is room, and reserves no more than it keeps', () => {
    const budget = budgetOf(10_000_000)
    const kept = new HeadTail(4_000_000, budget)
    for (let round = 0; round < 50; round += 1) kept.push(new Uint8Array(100_000))
    expect(kept.truncated).toBe(true)
    expect(kept.result().bytes.byteLength).toBe(4_000_000)
    expect(10_000_000 - budget.free()).toBeLessThanOrEqual(4_000_000)
  })

  it('keeps head and tail when the budget is used up, and reports the truncation', () => {
    const [one, other] = [new HeadTail(4_000_000, budgetOf(500_000)), new HeadTail(4_000_000, budgetOf(0))]
    for (let round = 0; round < 100; round += 1)
      for (const kept of [one, other]) kept.push(new Uint8Array(30_000).fill(round))
    for (const [kept, least, most] of [
      [one, 250_000, 600_000],
      [other, 60_000, 130_000],
    ] as const) {
      const { bytes } = kept.result()
      expect(kept.truncated).toBe(true)
      expect(bytes.byteLength).toBeGreaterThan(least)
      expect(bytes.byteLength).toBeLessThan(most)
      expect(bytes[0]).toBe(0)
      expect(bytes.at(-1)).toBe(99)
    }
  })

  it('copies what it keeps, because the caller may reuse its memory', () => {
    const kept = new HeadTail(10)
    const chunk = Buffer.from('abcdefghijkl')
    kept.push(chunk)
    chunk.fill(0)
    expect(Buffer.from(kept.result().bytes).toString()).toBe('abcdehijkl')
  })
})

describe('HeadTail', () => {
  const fill = (max: number, text: string, step: number) => {
    const kept = new HeadTail(max)
    const all = new TextEncoder().encode(text)
    for (let at = 0; at < all.length; at += step) kept.push(all.subarray(at, at + step))
    return kept
  }

  it.each([1, 2, 3, 7, 1000])('keeps everything that fits, in steps of %i', (step) => {
    const kept = fill(40, 'grüße, 世界 🌍!', step)
    expect([kept.text(), kept.truncated]).toEqual(['grüße, 世界 🌍!', false])
  })

  it('shows head and tail, and counts the missing bytes', () => {
    const kept = fill(20, `${'a'.repeat(10)}${'b'.repeat(50)}${'c'.repeat(10)}`, 3)
    expect(kept.text()).toBe(`${'a'.repeat(10)}\n[… 50 bytes left out …]\n${'c'.repeat(10)}`)
    expect(kept.truncated).toBe(true)
  })

  it('keeps the same bytes in chunks of every size', () => {
    const all = Uint8Array.from({ length: 20_000 }, (_, at) => (at * 7919) % 251)
    for (const max of [1, 2, 3, 100, 1023, 4096, 9999, 20_000])
      for (const step of [1, 7, 1024, 1500, 5000, 20_000]) {
        const kept = new HeadTail(max)
        for (let at = 0; at < all.length; at += step) kept.push(all.subarray(at, at + step))
        const expected = [
          ...all.subarray(0, Math.ceil(max / 2)),
          ...all.subarray(all.length - Math.floor(max / 2)),
        ]
        const { bytes, omitted } = kept.result()
        expect(Buffer.from(expected).equals(bytes), `${max} bytes in steps of ${step}`).toBe(true)
        expect([omitted, kept.truncated]).toEqual([all.length - max, max < all.length])
      }
  })

  it.each([9, 10, 11, 12, 13, 14, 15, 16])('never splits a character at %i bytes', (max) => {
    expect(fill(max, '🌍世é'.repeat(20), 5).text()).not.toContain('�')
  })
})

describe('quoteArgs', () => {
  it.each([
    ['plain'],
    [''],
    ['two words'],
    ["it's"],
    ['$(touch x)`y`'],
    ['a\nb'],
    ['*?[!]'],
    ['-n'],
    ['\\'],
    ['grüße 🌍'],
    ['"'],
  ])('a shell returns %j unchanged', (arg) => {
    expect(execFileSync('sh', ['-c', `printf %s ${quoteArgs([arg])}`], { encoding: 'utf8' })).toBe(arg)
  })

  it('quotes what zsh alone would expand', () => {
    expect(quoteArgs(['=ls', 'a=b'])).toBe("'=ls' a=b")
  })
})

describe('ids', () => {
  it('are accepted with or without the provider’s name, and rejected with another name', () => {
    expect(nativeId('local', 'local:abc')).toBe('abc')
    expect(nativeId('local', 'abc')).toBe('abc')
    expect(() => nativeId('local', 'e2b:abc')).toThrow(
      expect.objectContaining({ code: 'invalid_argument', hint: expect.stringContaining('e2b') }),
    )
    expect(() => nativeId('local', '')).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
  })

  it('are safe in paths and host names', () => {
    expect(randomId()).toMatch(/^[a-z2-7]{16}$/)
    expect(new Set(Array.from({ length: 1000 }, () => randomId())).size).toBe(1000)
  })
})

describe('bytes', () => {
  it('decode without Buffer, too', () => {
    const { Buffer } = globalThis
    try {
      Object.assign(globalThis, { Buffer: undefined })
      const bytes = asBytes(new Uint8Array([0xc3, 0xbc, 0x21]))
      expect([bytes.toString(), bytes.toString('hex'), bytes.toString('base64')]).toEqual([
        'ü!',
        'c3bc21',
        'w7wh',
      ])
    } finally {
      Object.assign(globalThis, { Buffer })
    }
  })

  it('a source is read only on demand, and closed when the reader leaves', async () => {
    let made = 0
    let left = false
    const source = (async function* () {
      try {
        for (;;) yield new Uint8Array([made++])
      } finally {
        left = true
      }
    })()
    const reader = streamOf(chunksOf(source)).getReader()
    await reader.read()
    await reader.read()
    expect(made).toBeLessThanOrEqual(3)
    await reader.cancel()
    expect(left).toBe(true)
  })
})

describe('pages', () => {
  const infos: SandboxInfo[] = Array.from({ length: 7 }, (_, i) => ({
    id: `x:${i}`,
    sandboxId: `${i}`,
    status: 'running',
    labels: { odd: String(i % 2) },
    createdAt: new Date(1000 + (i >> 1)),
  }))

  it('continue where the previous page ended, without gap or repeat', () => {
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = pageOf(infos, { limit: 3, cursor })
      seen.push(...page.map(({ sandboxId }) => sandboxId))
      cursor = page.nextCursor
    } while (cursor)
    expect(seen).toEqual(['0', '1', '2', '3', '4', '5', '6'])
  })

  it('continue after the last sandbox of a page was deleted', () => {
    const page = pageOf(infos, { limit: 3 })
    expect(
      pageOf(
        infos.filter(({ id }) => id !== 'x:2'),
        { limit: 3, cursor: page.nextCursor },
      ).map(({ sandboxId }) => sandboxId),
    ).toEqual(['3', '4', '5'])
    expect(() => pageOf(infos, { cursor: 'nonsense' })).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    )
  })
})

describe('cloneCommand', () => {
  const url = 'https://example.com/a/b.git'

  it('has the token in the environment only', () => {
    const { args, env } = cloneCommand({ url, token: 'tok-en', target: '.' })
    expect(args).toEqual(['clone', '--quiet', '--', url, '.'])
    expect(Object.values(env).filter((value) => value.includes('tok-en'))).toEqual(['tok-en'])
  })

  it('adds a missing scheme to an address', () => {
    expect(cloneCommand({ url: 'github.com/user/app', target: '.' }).args).toContain(
      'https://github.com/user/app',
    )
  })

  it.each([
    [{ url: 'https://user:pass@example.com/a' }, 'credentials'],
    [{ url: 'http://example.com/a', token: 't' }, 'https'],
    [{ url: 'git@example.com:a/b', token: 't' }, 'https'],
    [{ url: '/some/folder', token: 't' }, 'https'],
  ])('refuses %j', (spec, word) => {
    expect(() => cloneCommand({ ...spec, target: '.' })).toThrow(
      expect.objectContaining({ code: 'invalid_argument', message: expect.stringContaining(word) }),
    )
  })
})
