import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'

/** WebSocket clients that send and never read. Responses must not accumulate in the daemon. */
describe('a WebSocket client that never reads', () => {
  let daemon: TestDaemon
  const sockets: Socket[] = []
  beforeAll(async () => {
    daemon = await startTestDaemon({ fronts: { daytona: { listen: '127.0.0.1:0' } } })
  })
  afterAll(async () => {
    for (const socket of sockets) socket.destroy()
    await daemon?.stop()
  })

  const upgraded = async (url: string): Promise<Socket> => {
    const { port, pathname, search } = new URL(url)
    const socket = connect(Number(port), '127.0.0.1')
    sockets.push(socket)
    socket.on('error', () => {})
    const head = [
      `GET ${pathname}${search} HTTP/1.1`,
      'host: x',
      `authorization: Bearer ${daemon.key}`,
      'connection: upgrade',
      'upgrade: websocket',
      'sec-websocket-version: 13',
      `sec-websocket-key: ${randomBytes(16).toString('base64')}`,
    ]
    socket.write(`${head.join('\r\n')}\r\n\r\n`)
    const [first] = await once(socket, 'data')
    expect(String(first)).toMatch(/^HTTP\/1\.1 101 /)
    socket.pause()
    return socket
  }
  const terminal = async () => {
    const id = await daemon.session()
    const { body } = await daemon.call('POST', `/v1/sessions/${id}/terminals`, {})
    return `${daemon.daemon.url}/v1/sessions/${id}/terminals/${body.terminal_id ?? body.id}/ws`
  }
  const frame = (opcode: number, text = '') =>
    Buffer.from([0x80 | opcode, 0x80 | text.length, 0, 0, 0, 0, ...Buffer.from(text)])

  /** Sends 400,000 frames, or as many as are accepted, and returns the growth of memory. */
  const flood = async (socket: Socket, one: Buffer): Promise<number> => {
    const many = Buffer.concat(Array.from({ length: 10_000 }, () => one))
    const before = process.memoryUsage()
    for (let sent = 0; sent < 40 && !socket.destroyed; sent += 1)
      if (!socket.write(many))
        await new Promise<void>((resolve) => {
          const settle = () => {
            socket.off('drain', settle).off('close', settle)
            resolve()
          }
          socket.on('drain', settle).on('close', settle)
        })
    const after = process.memoryUsage()
    return after.heapUsed + after.external - before.heapUsed - before.external
  }

  it('and pings a terminal costs one response at a time', async () => {
    expect(await flood(await upgraded(await terminal()), frame(9, 'x'.repeat(100)))).toBeLessThan(80_000_000)
  })

  it('and pings Daytona’s event socket is disconnected, with either kind of ping', async () => {
    const url = `${daemon.daemon.fronts.daytona}/api/socket.io/?EIO=4&transport=websocket`
    expect(await flood(await upgraded(url), frame(9, 'x'.repeat(100)))).toBeLessThan(80_000_000)
    expect(await flood(await upgraded(url), frame(1, '2'))).toBeLessThan(80_000_000)
  })

  it('a client that reads gets its responses, the newest last', async () => {
    const url = (await terminal()).replace('http', 'ws')
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${daemon.key}` } })
    await once(socket, 'open')
    const answers: string[] = []
    socket.on('pong', (data) => answers.push(String(data)))
    for (let n = 0; n < 1000; n += 1) socket.ping(String(n))
    await expect.poll(() => answers.at(-1)).toBe('999')
    expect(answers[0]).toBe('0')
    socket.terminate()
  })

  it('rejects a message of many fragments', async () => {
    const socket = await upgraded(await terminal())
    const fragment = Buffer.from([0x00, 0x81, 0, 0, 0, 0, 0x61])
    const closed = once(socket, 'close')
    socket.resume()
    socket.write(Buffer.from([0x02, 0x81, 0, 0, 0, 0, 0x61]))
    socket.write(Buffer.concat(Array.from({ length: 2000 }, () => fragment)))
    await closed
  })
})
