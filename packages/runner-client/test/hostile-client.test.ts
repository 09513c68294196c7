/** A hostile or broken client loses its own connection, with a reason. The runner and all processes continue. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { RunnerClient } from '@sandkasten/runner-client'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type CborMap, decodeMap, encodeCbor } from '../src/cbor.ts'
import { encodeFrame, encodeHello, encodeWindow, type Frame, FrameParser, FrameType } from '../src/frame.ts'
import { Random } from '../src/test-helper.ts'
import { alive, fresh, startRunner, type TestRunner } from './harness.ts'

let runner: TestRunner
let client: RunnerClient
let witness: number

beforeAll(async () => {
  runner = await startRunner()
  client = await runner.connect()
  witness = (await client.startDetached({ id: 'witness', argv: ['sleep', '100000'] })).pid
})
afterAll(() => runner[Symbol.asyncDispose]())

/** Sends raw bytes and collects the frames that it receives. */
class Raw {
  readonly socket: Socket
  readonly frames: Frame[] = []
  readonly ended: Promise<void>

  constructor(socket: Socket) {
    this.socket = socket
    const parser = new FrameParser()
    socket.on('data', (chunk: Buffer) => {
      for (const frame of parser.push(chunk)) this.frames.push(frame)
    })
    this.ended = new Promise((resolve) => socket.once('close', () => resolve()))
  }

  static async open(greet = true): Promise<Raw> {
    const raw = new Raw(await runner.raw())
    if (greet) raw.socket.write(encodeHello())
    return raw
  }

  /** The reason that the runner gave for ending the connection. */
  async goodbye(): Promise<CborMap> {
    await this.ended
    const last = this.frames.at(-1)
    expect(last?.type).toBe(FrameType.goodbye)
    return decodeMap(last?.payload as Buffer)
  }

  request(stream: number, body: CborMap): void {
    this.socket.write(encodeFrame(FrameType.request, stream, encodeCbor(body)))
  }

  /** Resolves when a frame matches. Rejects if the connection ends before. */
  async until(fits: (frame: Frame) => boolean): Promise<Frame> {
    for (;;) {
      const found = this.frames.find(fits)
      if (found !== undefined) return found
      const closed = this.ended.then(() => {
        if (!this.frames.some(fits)) throw new Error('the connection ended before the frame arrived')
      })
      await Promise.race([once(this.socket, 'data'), closed])
    }
  }
}

async function unharmed(): Promise<void> {
  expect((await client.run({ id: fresh(), argv: ['echo', 'fine'] })).stdout.toString()).toBe('fine\n')
  expect(await alive(witness)).toBe(true)
  expect(runner.stderr()).toBe('')
}

/** Retries only if the connection limit is reached. Any other error, such as a dead runner, is permanent. */
async function connectWhenThereIsRoom(): Promise<RunnerClient> {
  for (const deadline = Date.now() + 20_000; ; await new Promise((resolve) => setTimeout(resolve, 10))) {
    try {
      return await runner.connect()
    } catch (error) {
      const refused = SandboxError.is(error, 'connection_lost') && error.details.runnerCode === 'limit'
      if (!refused || Date.now() > deadline) throw error
    }
  }
}

const header = (length: number, type: number, stream: number): Buffer => {
  const bytes = Buffer.alloc(9)
  bytes.writeUInt32BE(length)
  bytes.writeUInt8(type, 4)
  bytes.writeUInt32BE(stream, 5)
  return bytes
}

describe('the handshake', () => {
  it('rejects a wrong version with a clear error', async () => {
    const raw = await Raw.open(false)
    raw.socket.write(encodeHello({ major: 2, minor: 0 }))
    expect(await raw.goodbye()).toMatchObject({
      code: 'version',
      major: 1,
      minor: 2,
      message: expect.stringContaining('2'),
    })
    await unharmed()
  })

  it('accepts a newer minor version', async () => {
    const raw = await Raw.open(false)
    raw.socket.write(encodeHello({ major: 1, minor: 999 }))
    await raw.until((frame) => frame.type === FrameType.welcome)
    raw.socket.destroy()
  })

  it.each([
    [
      'another protocol',
      Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
      /too_long|unknown_frame|malformed/,
    ],
    [
      'a wrong magic',
      encodeFrame(FrameType.hello, 0, Buffer.from('NOTMAGIC\0\x01\0\0', 'latin1')),
      /bad_magic/,
    ],
    ['a request before HELLO', encodeFrame(FrameType.request, 1, encodeCbor({ op: 'list' })), /out_of_order/],
    ['a ping before HELLO', encodeFrame(FrameType.ping, 0, Buffer.alloc(8)), /out_of_order/],
  ])('rejects %s', async (_, bytes, code) => {
    const raw = await Raw.open(false)
    raw.socket.write(bytes)
    expect((await raw.goodbye()).code).toMatch(code)
    await unharmed()
  })
})

describe('a violation', () => {
  it.each([
    ['a frame that is too long', header(0xffffffff, FrameType.request, 1), 'too_long'],
    ['content that is too long', header(64 * 1024 + 1, FrameType.data, 1), 'too_long'],
    ['an unknown frame', header(0, 0x7f, 1), 'unknown_frame'],
    ['a body that is not CBOR', encodeFrame(FrameType.request, 1, Buffer.from([0xff])), 'malformed'],
    ['a body that is not a map', encodeFrame(FrameType.request, 1, Buffer.from([0x80])), 'malformed'],
    [
      'a body with a duplicate key',
      encodeFrame(FrameType.request, 1, Buffer.from('a2616100616101', 'hex')),
      'malformed',
    ],
    ['a frame for runners', encodeFrame(FrameType.done, 1, encodeCbor({})), 'out_of_order'],
    ['a second HELLO', encodeHello(), 'out_of_order'],
    ['content for an unknown stream', encodeFrame(FrameType.data, 9, Buffer.from('x')), 'out_of_order'],
    ['a window for an unknown stream', encodeWindow(9, 5), 'out_of_order'],
  ])('%s ends the connection with its reason', async (_, bytes, code) => {
    const raw = await Raw.open()
    raw.socket.write(bytes)
    expect(await raw.goodbye()).toMatchObject({ code, message: expect.any(String) })
    await unharmed()
  })

  it('a truncated frame is reported as `torn`', async () => {
    const raw = await Raw.open()
    raw.socket.end(encodeFrame(FrameType.request, 1, encodeCbor({ op: 'list' })).subarray(0, 12))
    expect(await raw.goodbye()).toMatchObject({ code: 'torn' })
  })

  it('a stream id that does not grow', async () => {
    const raw = await Raw.open()
    raw.request(5, { op: 'ports' })
    raw.request(5, { op: 'ports' })
    expect(await raw.goodbye()).toMatchObject({ code: 'out_of_order' })
  })

  it('more content than the window', async () => {
    const raw = await Raw.open()
    raw.request(1, {
      op: 'start',
      id: fresh(),
      argv: [Buffer.from('sleep'), Buffer.from('1000')],
      stdin: true,
    })
    for (let index = 0; index < 8; index++)
      raw.socket.write(encodeFrame(FrameType.data, 1, Buffer.alloc(64 * 1024)))
    expect(await raw.goodbye()).toMatchObject({ code: 'flow_control' })
  })

  it('windows whose sum overflows, and empty windows', async () => {
    for (const grant of [0, 0xffffffff]) {
      const raw = await Raw.open()
      raw.request(1, { op: 'ports.watch' })
      raw.socket.write(encodeWindow(1, grant))
      expect(await raw.goodbye()).toMatchObject({ code: 'flow_control' })
    }
  })

  it('unexpected content, content after the end, and a second end', async () => {
    const attempts: [CborMap, Buffer[]][] = [
      [{ op: 'ports.watch' }, [encodeFrame(FrameType.data, 1, Buffer.from('x'))]],
      [{ op: 'fs.watch', path: Buffer.from('/') }, [encodeFrame(FrameType.data, 1, Buffer.from('x'))]],
      [
        { op: 'start', id: fresh(), argv: [Buffer.from('cat')] },
        [encodeFrame(FrameType.data, 1, Buffer.from('x'))],
      ],
      [
        { op: 'start', id: fresh(), argv: [Buffer.from('sleep'), Buffer.from('9')], stdin: true },
        [encodeFrame(FrameType.end, 1), encodeFrame(FrameType.data, 1, Buffer.from('x'))],
      ],
      [
        { op: 'start', id: fresh(), argv: [Buffer.from('sleep'), Buffer.from('9')], stdin: true },
        [encodeFrame(FrameType.end, 1), encodeFrame(FrameType.end, 1)],
      ],
    ]
    for (const [body, frames] of attempts) {
      const raw = await Raw.open()
      raw.request(1, body)
      // `cat` without stdin may have ended already, and content for a stream that has just ended is not a violation.
      for (const frame of frames) raw.socket.write(frame)
      if (body.op === 'start' && body.stdin === undefined) raw.socket.write(header(0, 0x7f, 1))
      expect((await raw.goodbye()).code).toMatch(/out_of_order|unknown_frame/)
    }
    await unharmed()
  })
})

describe('invalid requests get an error and keep the connection', () => {
  it('of any kind', async () => {
    const raw = await Raw.open()
    const bodies: CborMap[] = [
      {},
      { op: 7 },
      { op: 'no.such' },
      { op: 'start' },
      { op: 'start', id: 'x'.repeat(129), argv: ['true'] },
      { op: 'start', id: 'a', argv: 'true' },
      { op: 'start', id: 'a', argv: [1] },
      { op: 'start', id: 'a', argv: ['true'], timeoutMs: -1 },
      { op: 'start', id: 'a', argv: ['true'], ringBytes: 1e15 },
      { op: 'start', id: 'a', argv: ['true'], env: ['A=B'] },
      { op: 'start', id: 'a', argv: ['true'], cols: 1 },
      { op: 'start', id: 'a', argv: ['true'], until: 'never' },
      { op: 'attach', id: 'nope' },
      { op: 'signal', id: 'witness', signal: 9 },
      { op: 'resize', id: 'witness', cols: 10, rows: 10 },
      { op: 'shell.exec', id: 'x', shell: 'nope', command: 'x' },
      { op: 'dial', port: 'http' },
      { op: 'fs.read', path: 7 },
      { op: 'fs.chmod', path: '/', mode: 99999 },
      { op: 'fs.write', path: '/tmp/x', append: true, exclusive: true },
      { op: 'forget', id: 'witness' },
    ]
    for (const [index, body] of bodies.entries()) raw.request(index + 1, body)
    await raw.until((frame) => frame.stream === bodies.length)
    const answers = raw.frames.filter((frame) => frame.type === FrameType.error)
    expect(answers).toHaveLength(bodies.length)
    for (const answer of answers)
      expect(decodeMap(answer.payload)).toMatchObject({
        code: expect.any(String),
        message: expect.any(String),
      })
    raw.socket.destroy()
    await unharmed()
  })

  it('streams above the limit are rejected one by one', async () => {
    const raw = await Raw.open()
    for (let stream = 1; stream <= 300; stream++) raw.request(stream, { op: 'wait', id: 'witness' })
    raw.request(301, { op: 'ports' })
    await raw.until((frame) => frame.stream === 301)
    const refused = raw.frames.filter((frame) => frame.type === FrameType.error)
    expect(refused).toHaveLength(45)
    for (let stream = 1; stream <= 256; stream++) raw.socket.write(encodeFrame(FrameType.cancel, stream))
    raw.request(302, { op: 'ports' })
    expect((await raw.until((frame) => frame.stream === 302)).type).toBe(FrameType.done)
    raw.socket.destroy()
  })
})

describe('load', () => {
  it('the runner stops reading from a client that never reads, and uses bounded memory', async () => {
    const socket = await runner.raw()
    socket.pause()
    socket.write(encodeHello())
    const ping = Buffer.concat(
      Array.from({ length: 1000 }, () => encodeFrame(FrameType.ping, 0, Buffer.alloc(8))),
    )
    // The kernel's buffers fill up first. Then the runner must stop reading.
    let accepted = 0
    while (socket.writableLength < 4 * 1024 * 1024 && accepted < 3000) {
      socket.write(ping)
      accepted += 1
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(socket.writableLength).toBeGreaterThan(0)
    expect(await runner.rssKb()).toBeLessThan(12 * 1024)
    await unharmed()
    socket.destroy()
  })

  it('incomplete frames use only as much memory as was received', async () => {
    const sockets = await Promise.all(Array.from({ length: 40 }, () => Raw.open()))
    for (const raw of sockets) raw.socket.write(header(1024 * 1024, FrameType.request, 1))
    await unharmed()
    expect(await runner.rssKb()).toBeLessThan(12 * 1024)
    for (const raw of sockets) raw.socket.destroy()
  })

  it('a connection above the limit is rejected with a reason, and closed connections free their place', async () => {
    // Connections of earlier tests count until the runner has closed them, so wait for these first.
    await expect.poll(async () => (await client.stats()).connections).toBe(1)
    const sockets: Raw[] = []
    try {
      for (let count = 2; count <= 64; count++) {
        const raw = await Raw.open()
        sockets.push(raw)
        await raw.until((frame) => frame.type === FrameType.welcome)
      }
      const refused = await Raw.open()
      sockets.push(refused)
      expect(await refused.goodbye()).toMatchObject({ code: 'limit' })
      await unharmed()
    } finally {
      for (const raw of sockets) raw.socket.destroy()
    }
    const again = await connectWhenThereIsRoom()
    await again.ping()
    again.close()
  })

  it('a hundred clients in sequence, half of them disconnected during a command', async () => {
    for (let index = 0; index < 100; index++) {
      const own = await runner.connect()
      const running = own.run({ id: fresh(), argv: ['sh', '-c', 'head -c 100000 /dev/zero'] })
      running.catch(() => {})
      if (index % 2 === 0) expect((await running).exitCode).toBe(0)
      own.close()
    }
    await unharmed()
  })
})

describe('fuzz', () => {
  it('random bytes after a valid HELLO', async () => {
    const random = new Random()
    for (let round = 0; round < 150; round++) {
      const raw = await Raw.open(random.below(4) !== 0)
      raw.socket.end(random.bytes(random.below(200)))
      await raw.ended
    }
    await unharmed().catch((error) => {
      throw new Error(`seed ${random.seed}`, { cause: error })
    })
  })

  it('valid frames in a wrong order, broken bodies, flipped bits', async () => {
    const random = new Random()
    const ops = [
      'start',
      'attach',
      'wait',
      'signal',
      'list',
      'shell.open',
      'shell.exec',
      'shell.close',
      'fs.read',
      'fs.list',
      'fs.stat',
      'fs.watch',
      'dial',
      'ports',
      'stats',
    ]
    const value = () =>
      random.pick([
        0,
        1,
        70_000,
        -1,
        null,
        true,
        '',
        'x',
        '/',
        'fuzz',
        'KILL',
        Buffer.from([0]),
        Buffer.from('/proc'),
        ['true'],
        ['sleep', '1'],
        {},
        { A: 'b' },
      ])
    const keys = [
      'id',
      'argv',
      'env',
      'path',
      'port',
      'shell',
      'command',
      'signal',
      'stdin',
      'tty',
      'after',
      'depth',
      'cwd',
      'timeoutMs',
    ]
    const some = (): Buffer => {
      const stream = 1 + random.below(6)
      const body = Object.fromEntries(
        Array.from({ length: random.below(6) }, () => [random.pick(keys), value()]),
      )
      // Random frames must not use the id of the witness process.
      const frame = random.pick<() => Buffer>([
        () => encodeFrame(FrameType.request, stream, encodeCbor({ op: random.pick(ops), ...body })),
        () => encodeFrame(FrameType.request, stream, encodeCbor({ op: random.pick(ops), ...body })),
        () => encodeFrame(FrameType.data, stream, random.bytes(1 + random.below(50))),
        () => encodeFrame(FrameType.end, stream),
        () => encodeFrame(FrameType.cancel, stream),
        () => encodeWindow(stream, random.below(1000)),
        () => encodeFrame(FrameType.ping, 0, random.bytes(8)),
      ])()
      if (random.below(8) === 0) frame[random.below(frame.length)] = random.below(256)
      return frame
    }
    for (let round = 0; round < 250; round++) {
      const raw = await Raw.open()
      for (let count = random.below(12); count >= 0; count--) raw.socket.write(some())
      raw.socket.end()
      await raw.ended
    }
    await unharmed().catch((error) => {
      throw new Error(`seed ${random.seed}`, { cause: error })
    })
    expect(await runner.rssKb()).toBeLessThan(16 * 1024)
  })
})
