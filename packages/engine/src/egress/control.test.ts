import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, expect, it } from 'vitest'
import { ControlConnection } from './control.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-control-'))
const open: Array<Server | ControlConnection> = []
let number = 0

afterAll(() => rmSync(folder, { recursive: true, force: true }))
afterEach(() => {
  for (const one of open.splice(0)) one.close()
})

/** A connection to a server that answers each line as told. */
async function connect(answer: (line: Record<string, unknown>, socket: Socket) => void) {
  const file = path.join(folder, `${++number}.sock`)
  const server = createServer((socket) => {
    socket.on('error', () => {})
    let text = ''
    socket.on('data', (chunk) => {
      const lines = `${text}${chunk}`.split('\n')
      text = lines.pop()!
      for (const line of lines) answer(JSON.parse(line), socket)
    })
  })
  open.push(server)
  await new Promise<void>((resolve) => server.listen(file, resolve))
  const connection = (await ControlConnection.open(file))!
  open.push(connection)
  return connection
}

const line = (value: unknown) => `${JSON.stringify(value)}\n`

it('pairs answers with requests, in any order and in pieces', async () => {
  const lines: Array<Record<string, unknown>> = []
  const connection = await connect((request, socket) => {
    lines.push(request)
    if (lines.length < 2) return
    const text = [...lines].reverse().map(({ id, op }) => line({ id, ok: { op } }))
    for (const byte of text.join('')) socket.write(byte)
  })
  const answers = await Promise.all([connection.request('one'), connection.request('two', { x: 1 })])
  expect(answers).toEqual([{ op: 'one' }, { op: 'two' }])
  expect(lines[1]).toMatchObject({ op: 'two', x: 1 })
})

it('reports the gateway’s errors with their code', async () => {
  const connection = await connect(({ id, op }, socket) =>
    socket.write(line({ id, error: { code: op, message: `no ${op}` } })),
  )
  await expect(connection.request('not_found')).rejects.toMatchObject({ code: 'not_found' })
  await expect(connection.request('invalid_argument')).rejects.toMatchObject({
    code: 'invalid_argument',
    message: 'The gateway refused: no invalid_argument',
  })
  await expect(connection.request('anything')).rejects.toMatchObject({ code: 'unavailable' })
})

it.each([
  ['text that is no JSON', 'hello\n'],
  ['a message without an id', line({ ok: {} })],
  ['a line that never ends', 'x'.repeat(5 * 1024 * 1024)],
])('%s ends the connection and fails every request', async (_, bytes) => {
  const connection = await connect((_request, socket) => socket.write(bytes))
  const [first, second] = [connection.request('one'), connection.request('two')]
  await expect(first).rejects.toMatchObject({ code: 'connection_lost' })
  await expect(second).rejects.toMatchObject({ code: 'connection_lost' })
  await connection.closed
  await expect(connection.request('three')).rejects.toMatchObject({ code: 'connection_lost' })
})

it('refuses a request that is larger than a line', async () => {
  const connection = await connect(({ id }, socket) => socket.write(line({ id, ok: {} })))
  await expect(connection.request('add', { policy: 'x'.repeat(5 * 1024 * 1024) })).rejects.toMatchObject({
    code: 'too_large',
  })
  await expect(connection.request('hello')).resolves.toEqual({})
})

it('passes events to their follower until it stops, and ignores those of others', async () => {
  let push = (_event: unknown, _id?: number) => {}
  const connection = await connect(({ id }, socket) => {
    push = (event, other) => socket.write(line({ id: other ?? id, event }))
    socket.write(line({ id, ok: { events: [], next: 0 } }))
  })
  const seen: unknown[] = []
  const { stop } = await connection.follow({ sandbox: 'a' }, (event) => seen.push(event))
  push({ seq: 1 })
  push({ seq: 2 }, 999)
  await expect.poll(() => seen).toEqual([{ seq: 1 }])
  stop()
  push({ seq: 3 })
  const done = connection.request('hello')
  await done
  expect(seen).toEqual([{ seq: 1 }])
})

it('finds nothing where no gateway listens', async () => {
  expect(await ControlConnection.open(path.join(folder, 'none.sock'))).toBeUndefined()
})
