/** The runner's data is hostile input (pitfall 118): the client ends the connection, fails every call with one error, and holds no memory. */
import { Duplex } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { type CborMap, encodeCbor } from './cbor.ts'
import { RunnerClient } from './client.ts'
import { encodeFrame, encodeWindow, FrameParser, FrameType } from './frame.ts'
import { Random } from './test-helper.ts'

/** The far end of a stream, controlled by the test. */
class Fake extends Duplex {
  readonly received: { type: number; stream: number; payload: Buffer }[] = []
  readonly #parser = new FrameParser()
  onFrame: (type: number, stream: number) => void = () => {}

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: () => void): void {
    for (const frame of this.#parser.push(chunk)) {
      this.received.push(frame)
      this.onFrame(frame.type, frame.stream)
    }
    callback()
  }

  say(type: FrameType, stream: number, body: CborMap | Buffer = {}): void {
    this.push(encodeFrame(type, stream, body instanceof Uint8Array ? body : encodeCbor(body)))
  }
}

const welcome: CborMap = { major: 1, minor: 0, pid: 1, boot: new Uint8Array(16) }

async function connected(): Promise<{ fake: Fake; client: RunnerClient }> {
  const fake = new Fake()
  const connecting = RunnerClient.connect(fake)
  fake.say(FrameType.welcome, 0, welcome)
  return { fake, client: await connecting }
}

const output = (number: number, size: number, channel = 1): Buffer => {
  const payload = Buffer.alloc(9 + size)
  payload.writeUInt8(channel)
  payload.writeBigUInt64BE(BigInt(number), 1)
  return payload
}

describe('an older runner', () => {
  it('is not asked for merged output, which it would ignore', async () => {
    const { fake, client } = await connected()
    const options = { id: 'p', argv: ['make'], merged: true }
    for (const call of [() => client.start(options), () => client.startDetached(options)])
      await expect(call()).rejects.toMatchObject({ code: 'unsupported' })
    expect(fake.received.filter(({ type }) => type === FrameType.request)).toEqual([])
  })
})

describe('the handshake', () => {
  it('refuses another version, in both directions', async () => {
    const fake = new Fake()
    const connecting = RunnerClient.connect(fake)
    fake.say(FrameType.welcome, 0, { ...welcome, major: 2 })
    await expect(connecting).rejects.toMatchObject({
      code: 'provider_error',
      details: { violation: 'version' },
    })
    expect(fake.received.at(-1)?.type).toBe(FrameType.goodbye)
    const told = new Fake()
    const refused = RunnerClient.connect(told)
    told.say(FrameType.goodbye, 0, { code: 'version', message: 'no' })
    await expect(refused).rejects.toMatchObject({
      code: 'connection_lost',
      details: { runnerCode: 'version' },
    })
  })

  it('times out on silence, stops on abort, and destroys the stream', async () => {
    const silent = new Fake()
    await expect(RunnerClient.connect(silent, { timeoutMs: 20 })).rejects.toMatchObject({ code: 'timeout' })
    const abort = new AbortController()
    const connecting = RunnerClient.connect(new Fake(), { signal: abort.signal })
    abort.abort()
    await expect(connecting).rejects.toMatchObject({ code: 'aborted' })
    await expect(RunnerClient.connect(new Fake(), { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'aborted',
    })
  })

  it.each([
    ['no welcome at all', (fake: Fake) => fake.say(FrameType.done, 1)],
    ['a welcome without facts', (fake: Fake) => fake.say(FrameType.welcome, 0, {})],
    [
      'a welcome with wrong types',
      (fake: Fake) => fake.say(FrameType.welcome, 0, { ...welcome, pid: 'one' }),
    ],
    ['garbage', (fake: Fake) => fake.push(Buffer.from('HTTP/1.1 200 OK\r\n\r\n'))],
    ['a huge frame', (fake: Fake) => fake.push(Buffer.from('ffffffff0200000000', 'hex'))],
  ])('refuses %s', async (_, act) => {
    const fake = new Fake()
    const connecting = RunnerClient.connect(fake)
    act(fake)
    await expect(connecting).rejects.toMatchObject({ code: 'provider_error' })
  })
})

describe('a violation ends the connection and fails every call', () => {
  it.each<[string, (fake: Fake) => void]>([
    ['a frame on a stream that is not open', (fake) => fake.say(FrameType.done, 99)],
    ['a stream that opens twice', (fake) => [fake.say(FrameType.open, 1), fake.say(FrameType.open, 1)]],
    ['unexpected content', (fake) => fake.say(FrameType.data, 1, Buffer.from('x'))],
    ['an unexpected end', (fake) => fake.push(encodeFrame(FrameType.end, 1))],
    ['a frame for clients', (fake) => fake.say(FrameType.request, 1, { op: 'start' })],
    ['a second welcome', (fake) => fake.say(FrameType.welcome, 0, welcome)],
    ['an unsolicited pong', (fake) => fake.say(FrameType.pong, 0, Buffer.alloc(8))],
    ['an empty window', (fake) => fake.push(encodeWindow(1, 0))],
    ['an oversized window', (fake) => fake.push(encodeWindow(1, 0xffffffff))],
    ['a result that is not a map', (fake) => fake.push(encodeFrame(FrameType.done, 1, Buffer.from([0x80])))],
    ['a result with wrong types', (fake) => fake.say(FrameType.done, 1, { tasks: 'none' })],
    ['an unknown frame', (fake) => fake.push(Buffer.from('000000007f00000001', 'hex'))],
    ['a torn frame', (fake) => [fake.push(Buffer.from('0000', 'hex')), fake.push(null)]],
    [
      'events without end',
      (fake) => {
        for (let i = 0; i < 1100; i++) fake.say(FrameType.event, 1, { event: 'x' })
      },
    ],
    [
      'large events',
      (fake) => {
        for (let i = 0; i < 9; i++) fake.say(FrameType.event, 1, { event: 'x'.repeat(500_000) })
      },
    ],
  ])('%s', async (_, act) => {
    const { fake, client } = await connected()
    const call = client.list()
    act(fake)
    await expect(call).rejects.toMatchObject({ name: 'SandboxError' })
    await client.connection.closed
    expect(client.connection.ended).toBe(true)
    await expect(client.list()).rejects.toMatchObject({ name: 'SandboxError' })
    await expect(client.ping()).rejects.toMatchObject({ name: 'SandboxError' })
  })

  it.each<[string, (fake: Fake) => void]>([
    [
      'more than the window',
      (fake) => {
        for (let n = 1; n <= 5; n++) fake.say(FrameType.output, 1, output(n, 64 * 1024))
      },
    ],
    ['a number out of order', (fake) => fake.say(FrameType.output, 1, output(2, 1))],
    [
      'a number twice',
      (fake) => [fake.say(FrameType.output, 1, output(1, 1)), fake.say(FrameType.output, 1, output(1, 1))],
    ],
    ['an unknown channel', (fake) => fake.say(FrameType.output, 1, output(1, 1, 3))],
    ['an event of another kind', (fake) => fake.say(FrameType.event, 1, { event: 'surprise' })],
    ['an end without facts', (fake) => fake.say(FrameType.done, 1, {})],
    [
      'an end with both code and signal',
      (fake) =>
        fake.say(FrameType.done, 1, { exitCode: 0, signal: 'SIGKILL', timedOut: false, durationMs: 1 }),
    ],
  ])('output: %s', async (_, act) => {
    const { fake, client } = await connected()
    const starting = client.start({ id: 'x', argv: ['true'] })
    fake.say(FrameType.open, 1, { pid: 2, existed: false })
    const process = await starting
    act(fake)
    const consume = async (): Promise<void> => {
      while ((await process.next()) !== undefined);
      await process.exit
    }
    await expect(consume()).rejects.toMatchObject({ code: 'provider_error' })
    expect(client.connection.ended).toBe(true)
  })

  it.each<[string, Buffer]>([
    ['too long', Buffer.from('7fffffff', 'hex')],
    ['torn', Buffer.from('00000010aa', 'hex')],
    ['of a wrong type', Buffer.concat([Buffer.from([0, 0, 0, 1]), Buffer.from([0x80])])],
  ])('a record %s', async (_, bytes) => {
    const { fake, client } = await connected()
    const list = client.files.list('/').next()
    fake.say(FrameType.data, 1, bytes)
    fake.say(FrameType.done, 1, {})
    await expect(list).rejects.toMatchObject({ code: 'provider_error' })
  })
})

describe('a runner that does not answer', () => {
  it('times the call out and cancels it, and keeps the connection', async () => {
    const { fake, client } = await connected()
    await expect(client.list({ answerTimeoutMs: 10 })).rejects.toMatchObject({ code: 'timeout' })
    expect(fake.received.at(-1)).toMatchObject({ type: FrameType.cancel, stream: 1 })
    fake.say(FrameType.error, 1, { code: 'cancelled', message: 'cancelled' })
    const abort = new AbortController()
    const call = client.wait('x', { signal: abort.signal })
    abort.abort()
    await expect(call).rejects.toMatchObject({ code: 'aborted' })
    expect(client.connection.ended).toBe(false)
    await expect(client.ping(10)).rejects.toMatchObject({ code: 'timeout' })
  })

  it('loses the connection after hundreds of cancelled calls', async () => {
    const { client } = await connected()
    const calls = Array.from({ length: 300 }, () =>
      client.wait('x', { signal: AbortSignal.abort() }).catch(() => {}),
    )
    await Promise.all(calls)
    expect(client.connection.ended).toBe(true)
  })

  it('blocks the writer when it takes no content', async () => {
    const { fake, client } = await connected()
    const starting = client.start({ id: 'x', argv: ['cat'], stdin: true })
    fake.say(FrameType.open, 1, { pid: 2, existed: false })
    const process = await starting
    let written = false
    const writing = process.write(Buffer.alloc(1024 * 1024)).then(() => {
      written = true
    })
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
    const sent = fake.received
      .filter((frame) => frame.type === FrameType.data)
      .reduce((sum, frame) => sum + frame.payload.length, 0)
    expect([sent, written]).toEqual([256 * 1024, false])
    fake.push(encodeWindow(1, 1024 * 1024))
    await writing
    client.close()
  })
})

describe('a runner that sends and never reads', () => {
  /** Completes the handshake, and reads nothing afterwards. */
  const deaf = async () => {
    const fake = new Fake()
    const connecting = RunnerClient.connect(fake)
    fake.say(FrameType.welcome, 0, welcome)
    const client = await connecting
    fake._write = () => {}
    return { fake, client }
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve))

  it('loses the connection when it pings endlessly, with bounded memory', async () => {
    const { fake, client } = await deaf()
    const call = client.list()
    call.catch(() => {})
    const pings = Buffer.concat(
      Array.from({ length: 1000 }, () => encodeFrame(FrameType.ping, 0, Buffer.alloc(8))),
    )
    const before = process.memoryUsage.rss()
    let sent = 0
    for (; sent < 1000 && !client.connection.ended; sent += 1) {
      fake.push(pings)
      await turn()
    }
    expect(sent).toBeLessThan(20)
    await expect(call).rejects.toMatchObject({
      code: 'provider_error',
      details: { violation: 'unresponsive' },
    })
    expect(process.memoryUsage.rss() - before).toBeLessThan(100_000_000)
    expect(fake.destroyed).toBe(true)
  })

  it('loses the connection when it sends output endlessly', async () => {
    const { fake, client } = await deaf()
    const starting = client.start({ id: 'x', argv: ['yes'] })
    fake.say(FrameType.open, 1, { pid: 2, existed: false })
    const running = await starting
    const consuming = (async () => {
      while ((await running.next()) !== undefined);
    })()
    consuming.catch(() => {})
    const frame = (number: number) => encodeFrame(FrameType.output, 1, output(number, 64 * 1024))
    let number = 0
    for (; number < 20_000 && !client.connection.ended; number += 1) {
      fake.push(frame(number + 1))
      await turn()
    }
    expect(number).toBeLessThan(20_000)
    await expect(consuming).rejects.toMatchObject({ details: { violation: 'unresponsive' } })
  })

  it('loses the connection when too many requests wait', async () => {
    const { client } = await deaf()
    const path = 'x'.repeat(900_000)
    const calls = Array.from({ length: 60 }, () => client.files.stat(path).catch((error) => error))
    for (const error of await Promise.all(calls)) expect(error.details.violation).toBe('unresponsive')
  })
})

describe('errors', () => {
  it('of a newer runner keep their code; their text is truncated', async () => {
    const { fake, client } = await connected()
    const call = client.list()
    fake.say(FrameType.error, 1, { code: 'brand_new', message: 'x'.repeat(5000) })
    const error = await call.catch((reason) => reason)
    expect(error).toMatchObject({ code: 'provider_error', details: { runnerCode: 'brand_new' } })
    expect(error.message.length).toBeLessThan(1100)
  })

  it('cannot reach a prototype with a code', async () => {
    const { fake, client } = await connected()
    const call = client.files.stat('/')
    fake.say(FrameType.error, 1, { code: 'constructor', message: 'm' })
    await expect(call).rejects.toMatchObject({ code: 'provider_error' })
  })
})

describe('fuzz', () => {
  it('every call settles on random input, and nothing else is thrown', async () => {
    const random = new Random()
    const types = Object.values(FrameType)
    for (let round = 0; round < 400; round++) {
      const { fake, client } = await connected()
      const calls = [
        client.list(),
        client.stats(),
        client.files.read('/x'),
        client.run({ id: 'x', argv: ['x'] }),
        client.ping(),
        client.dial(80).then((socket) => socket.on('error', () => {})),
      ]
      for (const call of calls) call.catch(() => {})
      for (let count = 0; count < 8; count++) {
        if (random.below(3) === 0) fake.push(random.bytes(1 + random.below(60)))
        else {
          const body = random.pick<() => Buffer>([
            () => random.bytes(random.below(40)),
            () =>
              Buffer.from(
                encodeCbor({
                  [random.pick(['pid', 'tasks', 'event', 'code'])]: random.pick([0, 'x', true, null, []]),
                }),
              ),
          ])()
          const frame = Buffer.alloc(9 + body.length)
          frame.writeUInt32BE(body.length)
          frame.writeUInt8(random.pick(types), 4)
          frame.writeUInt32BE(random.below(8), 5)
          frame.set(body, 9)
          fake.push(frame)
        }
      }
      fake.push(null)
      const settled = await Promise.allSettled(calls)
      for (const result of settled) {
        if (result.status === 'rejected')
          expect(result.reason, `seed ${random.seed}`).toMatchObject({ name: 'SandboxError' })
      }
    }
  })
})
