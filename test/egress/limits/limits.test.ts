import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { closeAll } from '../world/close.ts'
import { type Engine, openEngine } from '../world/engine.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'

const missing = worldMissing() ?? (await reasonToSkip())
const allow = ['allowed.example', 'allowed.example:7000']
const MB = 1_000_000

describe.skipIf(missing)(`limits of a policy${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let world: World
  let engine: Engine
  beforeAll(async () => {
    world = await openWorld({ sniff: false })
    engine = await openEngine(world)
  }, 120_000)
  afterAll(() => closeAll(engine, world), 60_000)

  const python = async (id: string, script: string, ...args: string[]) => {
    const result = await engine.run(id, { cmd: 'python3', args: ['-c', script, ...args] })
    expect(result.exitCode, result.stderr).toBe(0)
    return JSON.parse(result.stdout)
  }
  const reasons = async (id: string) => new Set((await engine.events(id)).map(({ reason }) => reason))

  it('connections: one more than the limit is reset and recorded, and there is room when one ends', async () => {
    const id = await engine.create({ network: { allow, limits: { connections: 5 } } })
    expect(await python(id, CONNECTIONS, '7')).toEqual({ open: 5, failed: 2, again: true })
    expect(await reasons(id)).toContain('limit_connections')
    await engine.setNetwork(id, { allow, limits: { connections: 7 } })
    expect(await python(id, CONNECTIONS, '7')).toEqual({ open: 7, failed: 0, again: true })
    await engine.destroy(id)
  })

  it('connections: 512 without a limit in the policy', async () => {
    const id = await engine.create({ network: { allow }, resources: { memoryMb: 1024 } })
    expect(await python(id, CONNECTIONS, '515')).toEqual({ open: 512, failed: 3, again: true })
    await engine.destroy(id)
  })

  it('bytes: a transfer ends at the limit, later connections are refused, and a higher limit opens again', async () => {
    const id = await engine.create({ network: { allow, limits: { bytes: 2 * MB } } })
    const { got } = await python(id, DOWNLOAD, String(10 * MB))
    expect(got).toBeLessThan(2.3 * MB)
    // The reset discards what the program has not read yet, so the gateway's count is compared.
    const cut = (await engine.events(id)).find(({ reason }) => reason === 'limit_bytes')
    expect(cut!.bytesIn + cut!.bytesOut).toBeGreaterThan(1.9 * MB)
    // At most the bytes that were under way when the limit was reached.
    expect(cut!.bytesIn + cut!.bytesOut).toBeLessThan(2.3 * MB)
    expect((await python(id, DOWNLOAD, '1000')).got).toBe(0)
    await engine.setNetwork(id, { allow, limits: { bytes: 20 * MB } })
    expect((await python(id, DOWNLOAD, String(10 * MB))).got).toBe(10 * MB)
    await engine.destroy(id)
  })

  it('bytes per second: two transfers together take as long as the limit says', async () => {
    const id = await engine.create({ network: { allow, limits: { bytesPerSecond: 4 * MB } } })
    const [one, two] = await Promise.all([
      python(id, DOWNLOAD, String(4 * MB)),
      python(id, DOWNLOAD, String(4 * MB)),
    ])
    expect([one.got, two.got]).toEqual([4 * MB, 4 * MB])
    // 8 MB at 4 MB a second. A tenth of a second may be ahead of its time, and a busy machine takes longer.
    expect(Math.max(one.seconds, two.seconds)).toBeGreaterThan(1.7)
    expect(Math.max(one.seconds, two.seconds)).toBeLessThan(6)
    await engine.setNetwork(id, { allow })
    expect((await python(id, DOWNLOAD, String(8 * MB))).seconds).toBeLessThan(1.7)
    await engine.destroy(id)
  })
})

const CONNECTIONS = `
import json, socket, sys
def connect():
    try:
        stream = socket.create_connection(('allowed.example', 7000), 10)
        return stream if stream.recv(100) else None
    except OSError:
        return None
streams = [connect() for _ in range(int(sys.argv[1]))]
held = [stream for stream in streams if stream]
held[0].shutdown(socket.SHUT_RDWR); held[0].close()
again = None
for _ in range(100):
    again = again or connect()
print(json.dumps({'open': len(held), 'failed': len(streams) - len(held), 'again': again is not None}))
`

const DOWNLOAD = `
import json, socket, sys, time
start, got, count = time.monotonic(), 0, int(sys.argv[1])
try:
    stream = socket.create_connection(('allowed.example', 80), 20)
    stream.sendall(b'GET /bytes?count=%d HTTP/1.1\\r\\nHost: allowed.example\\r\\nConnection: close\\r\\n\\r\\n' % count)
    data = b''
    while b'\\r\\n\\r\\n' not in data:
        more = stream.recv(4096)
        if not more: break
        data += more
    got = len(data.partition(b'\\r\\n\\r\\n')[2])
    while more:
        more = stream.recv(1 << 18)
        got += len(more)
except OSError as error:
    pass
print(json.dumps({'got': got, 'seconds': time.monotonic() - start}))
`
