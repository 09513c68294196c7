import { describe, expect, it } from 'vitest'
import { SandboxError } from '../../errors.ts'
import { eventsOf, statusFrom } from './events.ts'
import { framed, TextStream } from './framed.ts'
import { GuestReader } from './reader.ts'

const facts = { provider: 'test', sandboxId: 'box' }
const read = async (text: string, after = 0) => {
  const events = []
  for await (const event of eventsOf(new TextStream({ text, code: 0 }, facts), after, facts))
    events.push(event)
  return events
}

describe('a response from a sandbox', () => {
  it('has events as bytes or base64', async () => {
    expect(await read('o 1 3\nabce 2 =eA==\nx 3 0 - 0 12\n')).toMatchObject([
      { seq: 1, type: 'stdout', data: new TextEncoder().encode('abc') },
      { seq: 2, type: 'stderr', data: new TextEncoder().encode('x') },
      { seq: 3, type: 'exit', exitCode: 0, timedOut: false, durationMs: 12 },
    ])
  })

  it.each([
    ['an event that was not asked for', 'o 2 =eA==\n'],
    ['a repeated number', 'o 1 =eA==\no 1 =eA==\n'],
    ['a number that is not one', 'o 1e0 =eA==\n'],
    ['a negative size', 'o 1 -5\n'],
    ['a chunk that ends early', 'o 1 10\nabc'],
    ['text that is not base64', 'o 1 =<script>\n'],
    ['another kind', 'q 1 =eA==\n'],
    ['an exit code that no program has', 'x 1 999 - 0 1\n'],
    ['a line without an end', 'o'.repeat(300_000)],
  ])('with %s is an error', async (_, text) => {
    await expect(read(text)).rejects.toMatchObject({ code: 'provider_error' })
  })

  it('is not read for a size beyond a chunk', async () => {
    const lines = ['o 1 99999999']
    let asked = 0
    const stream = {
      line: async () => lines.shift(),
      bytes: async (count: number) => {
        asked = count
        return new Uint8Array(count)
      },
      problem: async () => new SandboxError('internal', 'none'),
      close: () => {},
    }
    await expect(eventsOf(stream, 0, facts).next()).rejects.toMatchObject({ code: 'provider_error' })
    expect(asked).toBe(0)
  })

  it('tells lost output and a killed keeper', async () => {
    await expect(read('g 7\n', 2)).rejects.toMatchObject({ code: 'gone', details: { oldest: 7 } })
    await expect(read('l\n')).rejects.toMatchObject({ code: 'interrupted' })
    expect(statusFrom(['ended', '137', 'KILL;rm', '0', '5']).exit).toMatchObject({
      exitCode: 137,
      signal: undefined,
    })
  })

  it('is complete only with its frame', () => {
    expect(framed('noise\nN\nbody\n\nN 0\n', 'N')).toEqual({ text: 'body\n', code: 0 })
    expect(framed('\nN 98\n', 'N')).toEqual({ text: '', code: 98 })
    for (const text of ['N\nbody\n', '<html>', 'N\nbody\n\nM 0\n', 'N\nbody\n\nN x\n'])
      expect(framed(text, 'N')).toBeUndefined()
  })

  it('is read to a limit', async () => {
    const endless = new GuestReader('test', async () => new Uint8Array(100_000).fill(65))
    await expect(endless.line(1_000_000)).rejects.toMatchObject({ code: 'provider_error' })
    await expect(endless.rest(1_000_000)).rejects.toMatchObject({ code: 'too_large' })
  })
})
