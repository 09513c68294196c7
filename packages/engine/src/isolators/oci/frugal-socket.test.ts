import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FrugalSocket } from './frugal-socket.ts'

const most = 8
let server: Server
let path: string
let count = 0
const pairs: Pair[] = []

beforeEach(async () => {
  count += 1
  path = join(tmpdir(), `sandkasten-frugal-${process.pid}-${count}`)
  server = createServer()
  server.listen(path)
  await once(server, 'listening')
})
afterEach(async () => {
  for (const one of pairs.splice(0)) await closed(one)
  await new Promise((resolve) => server.close(resolve))
})

interface Pair {
  ours: FrugalSocket
  theirs: Socket
  /** Sends one byte. Returns the received bytes and a function that releases them. */
  send(byte: number): Promise<{ bytes: Uint8Array; release: (() => void) | undefined }>
  /** Sends one byte and does not keep the received bytes. */
  pass(byte: number): Promise<void>
}

async function pair(): Promise<Pair> {
  const ours = new FrugalSocket()
  ours.connect(path)
  const [theirs] = (await once(server, 'connection')) as [Socket]
  const made: Pair = {
    ours,
    theirs,
    send: (byte) =>
      new Promise((resolve) => {
        ours.once('data', (bytes: Buffer) => resolve({ bytes, release: ours.keep() }))
        theirs.write(Uint8Array.of(byte))
      }),
    async pass(byte) {
      theirs.write(Uint8Array.of(byte))
      await once(ours, 'data')
    },
  }
  pairs.push(made)
  return made
}

async function closed({ ours, theirs }: Pair): Promise<void> {
  if (ours.closed) return
  const closing = once(ours, 'close')
  ours.destroy()
  theirs.destroy()
  await closing
}

/** How many reads can be kept at once. */
async function spare(): Promise<number> {
  const one = await pair()
  one.ours.lend(true)
  await one.pass(0)
  const releases: (() => void)[] = []
  for (;;) {
    const { release } = await one.send(1)
    if (!release) break
    releases.push(release)
  }
  for (const release of releases) release()
  await closed(one)
  return releases.length
}

describe('kept bytes', () => {
  it('stay unchanged until they are released, despite other reads', async () => {
    const [one, other] = [await pair(), await pair()]
    for (const { ours } of [one, other]) ours.lend(true)
    for (const { pass } of [one, other]) await pass(0)
    const kept: { bytes: Uint8Array; byte: number; release: () => void }[] = []
    for (let byte = 1; byte <= 3 * most; byte += 1) {
      const { bytes, release } = await (byte % 3 === 0 ? one : other).send(byte)
      if (release) kept.push({ bytes, byte, release })
    }
    expect(kept.length).toBe(most)
    // All blocks are in use, so these bytes are in the shared buffer, which the next read overwrites.
    const { bytes, release } = await one.send(100)
    expect([bytes[0], release]).toEqual([100, undefined])
    await other.pass(101)
    for (const { bytes, byte } of kept) expect([...bytes]).toEqual([byte])
    for (const { release } of kept) release()
    await one.pass(102)
    const again = await one.send(103)
    expect(again.release).toBeDefined()
    again.release!()
  })

  it('are available only on request', async () => {
    const one = await pair()
    expect((await one.send(1)).release).toBeUndefined()
    one.ours.lend(true)
    await one.pass(2)
    one.ours.lend(false)
    await one.pass(3)
    expect((await one.send(4)).release).toBeUndefined()
  })

  it('are released when the socket ends, and may be released again after that', async () => {
    const before = await spare()
    for (let round = 0; round < most * 3; round += 1) {
      const one = await pair()
      one.ours.lend(true)
      await one.pass(0)
      const { release } = await one.send(1)
      const early = round % 2 === 0
      if (early) release!()
      await closed(one)
      if (!early) release!()
    }
    expect(await spare()).toBe(before)
  })
})
