import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { streamOf } from '@sandkasten/sdk/provider'
import { fastify } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sendStream } from './send-stream.ts'

type Source = Parameters<typeof sendStream>[1]
let answer: () => { source: Source; length?: number }
const app = fastify({ forceCloseConnections: true })
app.get('/', async (_request, reply) => {
  const { source, length } = answer()
  await sendStream(reply, source, length)
})
let port: number
beforeAll(async () => {
  await app.listen({ port: 0, host: '127.0.0.1' })
  port = (app.server.address() as AddressInfo).port
})
afterAll(() => app.close())

/** Reads a connection until it ends or is silent for a while. */
async function ask(): Promise<{ text: string; ended: boolean }> {
  const socket = await asked()
  let text = ''
  let ended = false
  socket.on('data', (data) => {
    text += data.toString('latin1')
  })
  socket.on('close', () => {
    ended = true
  })
  for (let length = -1; !ended && length !== text.length; await sleep(150)) length = text.length
  socket.destroy()
  return { text, ended }
}

async function asked(): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write('GET / HTTP/1.1\r\nhost: here\r\n\r\n')
  return socket
}

const bodyOf = (text: string) => text.slice(text.indexOf('\r\n\r\n') + 4)

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text)
}

/** A source that lends its buffers, as files of a sandbox do. */
class Lender {
  readonly out = new Set<number>()
  cancelled = false
  #next = 0
  #end: () => void = () => {}
  readonly #pieces: Iterator<Uint8Array>
  readonly #fails: boolean

  constructor(pieces: Iterable<Uint8Array>, fails = false) {
    this.#pieces = pieces[Symbol.iterator]()
    this.#fails = fails
  }

  async lend(take: (piece: Uint8Array, done: () => void) => void): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      this.#end = resolve
    })
    const more = () => {
      while (!this.cancelled && this.out.size < 4) {
        const { done, value } = this.#pieces.next()
        if (done) return this.#end()
        const id = this.#next++
        this.out.add(id)
        take(value, () => {
          expect(this.out.delete(id)).toBe(true)
          setImmediate(more)
        })
      }
    }
    more()
    await ended
    if (this.#fails) throw new Error('the sandbox is gone')
  }

  cancel(): void {
    this.cancelled = true
    this.#end()
  }

  stream(): ReadableStream<Uint8Array> {
    return streamOf({
      [Symbol.asyncIterator]: () => chunks(),
      readInto: async () => 0,
      lend: (take) => this.lend(take),
      cancel: () => this.cancel(),
    })
  }
}

const kinds: [string, (...texts: string[]) => Source][] = [
  ['read piece by piece', (...texts) => chunks(...texts)],
  ['lent', (...texts) => new Lender(texts.map((text) => Buffer.from(text))).stream()],
]

describe.each(kinds)('bytes that are %s', (_kind, of) => {
  it('arrive unchanged, with and without a declared length', async () => {
    answer = () => ({ source: of('one', 'two', 'three'), length: 11 })
    const { text, ended } = await ask()
    expect(text).toMatch(/^HTTP\/1.1 200 OK\r\n(.+\r\n)*content-length: 11\r\n/)
    expect([bodyOf(text), ended]).toEqual(['onetwothree', false])
    answer = () => ({ source: of('one', 'two') })
    expect(bodyOf((await ask()).text)).toBe('3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n')
    answer = () => ({ source: of() })
    expect(bodyOf((await ask()).text)).toBe('0\r\n\r\n')
  })

  it('never exceed the declared length', async () => {
    const evil = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil'
    for (const pieces of [['good', evil], [`good${evil}`], ['go', `od${evil}`, evil]]) {
      answer = () => ({ source: of(...pieces), length: 4 })
      const { text } = await ask()
      expect(bodyOf(text)).toBe('good')
    }
  })

  it('cut the connection when the source is shorter than declared', async () => {
    answer = () => ({ source: of('on'), length: 4 })
    const { text, ended } = await ask()
    expect([bodyOf(text), ended]).toEqual(['on', true])
    answer = () => ({ source: of(), length: 4 })
    expect((await ask()).ended).toBe(true)
  })
})

it('a source that fails after its whole content does not cut the connection', async () => {
  const ended = Promise.withResolvers<Uint8Array>()
  ended.promise.catch(() => {})
  answer = () => ({
    length: 5,
    source: (async function* () {
      yield Buffer.from('whole')
      yield await ended.promise
    })(),
  })
  const socket = await asked()
  let text = ''
  socket.on('data', (data) => {
    text += data.toString('latin1')
  })
  const heard = (part: string) => expect.poll(() => text).toContain(part)
  await heard('whole')
  // The client's next request may end the sandbox whose file it has read.
  answer = () => ({ source: chunks('next'), length: 4 })
  ended.reject(new Error('the sandbox is gone'))
  socket.write('GET / HTTP/1.1\r\nhost: here\r\n\r\n')
  await heard('next')
  socket.destroy()
})

describe('lent data', () => {
  it('gets an error status when it fails at once, and is cut when it fails later', async () => {
    answer = () => ({ source: new Lender([], true).stream(), length: 4 })
    expect((await ask()).text).toMatch(/^HTTP\/1.1 500 /)
    answer = () => ({ source: new Lender([Buffer.from('o')], true).stream(), length: 4 })
    const { text, ended } = await ask()
    expect([bodyOf(text), ended]).toEqual(['o', true])
  })

  it('is returned when a client disconnects at any time', async () => {
    const block = Buffer.alloc(512 * 1024)
    for (let round = 0; round < 10; round += 1) {
      const lender = new Lender(
        (function* () {
          for (;;) yield block
        })(),
      )
      answer = () => ({ source: lender.stream(), length: 2 ** 40 })
      const socket = await asked()
      if (round % 2 === 0) {
        // A client that does not read, until the buffers are full.
        await once(socket, 'readable')
        while (lender.out.size < 4) await sleep(5)
      } else socket.resume()
      await sleep(round)
      socket.destroy()
      while (!lender.cancelled || lender.out.size > 0) await sleep(5)
    }
  }, 30_000)
})
