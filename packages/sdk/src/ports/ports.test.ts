import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { expect, it } from 'vitest'
import { PortForwards } from './index.ts'

/** Listeners of this process; Node's own list omits those that are unreferenced. */
function listeners(): number {
  const lines = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/net/${table}`, 'utf8').split('\n'))
  const listening = new Set(
    lines.map((line) => line.trim().split(/\s+/)).flatMap((at) => (at[3] === '0A' ? at[9]! : [])),
  )
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return listening.has(/^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1] ?? '')
    } catch {
      return false
    }
  }).length
}

it.skipIf(process.platform !== 'linux')(
  'keeps at most 64 listeners, and never closes a listener with a connection',
  async () => {
    const inside = createServer((socket) => socket.pipe(socket))
    await once(inside.listen(0, '127.0.0.1'), 'listening')
    const { port: target } = inside.address() as { port: number }
    const forwards = new PortForwards(async () => connect(target, '127.0.0.1'))
    const before = listeners()
    try {
      const first = await forwards.localPort(1)
      const client = connect(first, '127.0.0.1')
      client.write('hello')
      expect(String((await once(client, 'data'))[0])).toBe('hello')
      for (let port = 2; port <= 500; port += 1) await forwards.localPort(port)
      expect(listeners() - before).toBeLessThanOrEqual(64)
      // The listener in use stays, the newest is kept, and the oldest unused one is replaced.
      expect(await forwards.localPort(1)).toBe(first)
      client.write('again')
      expect(String((await once(client, 'data'))[0])).toBe('again')
      expect(await forwards.localPort(500)).toBe(await forwards.localPort(500))
      client.destroy()
    } finally {
      await forwards.close()
      inside.close()
    }
    await expect.poll(listeners).toBeLessThan(before)
  },
)
