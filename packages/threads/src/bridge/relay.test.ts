import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { SandboxHandle } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { startRelay } from './relay.ts'
import { RelayReader, RelayViolation } from './relay-lines.ts'

describe('lines of a relay', () => {
  const read = (text: string) => new RelayReader().read(Buffer.from(text))

  it('are read across chunks', () => {
    const reader = new RelayReader()
    expect(reader.read(Buffer.from('{"type":"cancel","i'))).toEqual([])
    expect(reader.read(Buffer.from('d":7}\n{"type":"listening","port":80}\n{'))).toEqual([
      { type: 'cancel', id: 7 },
      { type: 'listening', port: 80 },
    ])
  })

  it('are refused if they are no frames or too long', () => {
    for (const line of ['', 'x', '[]', '1', '{}', '{"type":"cancel","id":-1}', '{"type":"request","id":1}'])
      expect(() => read(`${line}\n`), line).toThrow(RelayViolation)
    expect(() => read('x'.repeat(600_000))).toThrow('too long')
  })

  it('choose no headers but those of MCP', () => {
    const headers = { host: 'evil', authorization: 'Bearer x', accept: 'a\r\nb: c', __proto__: 'x' }
    const line = JSON.stringify({ type: 'request', id: 1, method: 'TRACE', headers, body: 'eA==' })
    expect(read(`${line}\n`)).toEqual([
      {
        type: 'request',
        id: 1,
        request: { method: 'GET', headers: { authorization: 'Bearer x' }, body: Buffer.from('x') },
      },
    ])
  })
})

describe('a relay that a sandbox has replaced', () => {
  let root: string
  let provider: LocalProvider
  let handle: SandboxHandle
  let server: Server
  let target: string
  beforeAll(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'sk-relay-'))
    provider = new LocalProvider({ root, acceptNoIsolation: true })
    handle = (await provider.create()) as unknown as SandboxHandle
    server = createServer((_, response) => {
      response.end('{}')
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    target = `http://127.0.0.1:${(server.address() as { port: number }).port}/mcp`
  })
  afterAll(async () => {
    await handle?.destroy()
    server?.close()
    await rm(root, { recursive: true, force: true })
  })

  /** The same sandbox, in which the relay is another program. */
  function replacedBy(program: string): SandboxHandle {
    const spawn: SandboxHandle['spawn'] = (options) => handle.spawn({ ...options, args: ['-c', program] })
    // The methods use private fields, so they run on the handle itself.
    return new Proxy(handle, {
      get(of, name) {
        if (name === 'spawn') return spawn
        const value: unknown = Reflect.get(of, name, of)
        return typeof value === 'function' ? value.bind(of) : value
      },
    })
  }
  const listening = `echo '{"type":"listening","port":80}'`

  it('does not start if it says something else', async () => {
    for (const program of ['echo hello', 'true', 'head -c 1000000 /dev/zero; sleep 100'])
      await expect(startRelay(replacedBy(program), { target })).rejects.toMatchObject({ code: 'unavailable' })
  }, 60_000)

  it.each([
    // In one chunk with garbage, the first line does not count.
    ['floods with garbage', `${listening}; sleep 1; yes`],
    ['sends an endless line', `${listening}; cat /dev/zero`],
    [
      'uses a number twice',
      `${listening}; yes '{"type":"request","id":1,"method":"GET","headers":{},"body":""}'`,
    ],
    [
      'opens requests without end',
      `${listening}; i=1; while true; do echo "{\\"type\\":\\"request\\",\\"id\\":$i,\\"method\\":\\"GET\\",\\"headers\\":{},\\"body\\":\\"\\"}"; i=$((i + 1)); done`,
    ],
    ['ends at once', listening],
  ])(
    'is given up when it %s, and this process works on',
    async (_, program) => {
      const onEnd = vi.fn()
      let ticks = 0
      const timer = setInterval(() => (ticks += 1), 10)
      await using relay = await startRelay(replacedBy(program), { target, onEnd })
      expect(relay.url).toBe('http://127.0.0.1:80/mcp')
      await vi.waitFor(() => expect(onEnd).toHaveBeenCalledOnce(), { timeout: 50_000 })
      clearInterval(timer)
      expect(ticks).toBeGreaterThan(10)
      const left = await handle.listProcesses()
      expect(left.filter(({ running }) => running)).toEqual([])
    },
    60_000,
  )
})
