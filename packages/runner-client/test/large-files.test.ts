import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { RunnerClient } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FrugalSocket } from '../../engine/src/isolators/oci/frugal-socket.ts'
import { Random } from '../src/test-helper.ts'
import { fresh, startRunner, type TestRunner } from './harness.ts'

let runner: TestRunner
let client: RunnerClient

beforeAll(async () => {
  runner = await startRunner()
  client = await runner.connect()
})
afterAll(() => runner[Symbol.asyncDispose]())

/** A new folder for one test. */
function folder(): string {
  const path = join(runner.folder, fresh('folder'))
  mkdirSync(path)
  return path
}

/** Connects like the engine. */
const lending = () => RunnerClient.connect(new FrugalSocket().connect(runner.socket))

describe('large files', () => {
  it('stream 100 MiB both ways in bounded memory', async () => {
    const path = join(folder(), 'large')
    const block = new Random(2).bytes(1024 * 1024)
    await client.files.write(
      path,
      Array.from({ length: 100 }, () => block),
    )
    const { content } = await client.files.readStream(path)
    let [total, equal] = [0, true]
    for await (const part of content) {
      const at = total % block.length
      const room = Math.min(part.length, block.length - at)
      equal &&= part.subarray(0, room).equals(block.subarray(at, at + room))
      total += part.length
    }
    expect([total, equal]).toEqual([100 * 1024 * 1024, true])
    expect(await runner.rssKb()).toBeLessThan(8 * 1024)
  })

  it('are unchanged for a slow reader that shares its connection', async () => {
    const path = join(folder(), 'large')
    const whole = new Random(3).bytes(8 * 1024 * 1024 + 12_345)
    await client.files.write(path, whole)
    const own = await runner.connect()
    const read = async (pauseMs: number) => {
      const parts: Buffer[] = []
      const { content } = await own.files.readStream(path)
      for await (const part of content) {
        parts.push(Buffer.from(part))
        if (parts.length % 16 === 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
      return Buffer.concat(parts)
    }
    const small = async () => {
      for (let round = 0; round < 200; round += 1)
        expect((await own.files.stat(path)).size).toBe(whole.length)
    }
    const [fast, slow, slower] = await Promise.all([read(0), read(2), read(5), small()])
    for (const found of [fast, slow, slower]) expect(found.equals(whole)).toBe(true)
    own.close()
  })

  it('are unchanged after a pause in reading from the socket', async () => {
    const path = join(folder(), 'large')
    const whole = new Random(4).bytes(4 * 1024 * 1024 + 7)
    await client.files.write(path, whole)
    for (let round = 0; round < 20; round += 1) {
      const own = await runner.connect()
      const { content } = await own.files.readStream(path)
      const parts: Buffer[] = []
      for await (const part of content) {
        parts.push(Buffer.from(part))
        // This process blocks meanwhile, so the data fills the socket and stops within a frame.
        if (parts.length % 5 === round % 5) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2)
      }
      expect(Buffer.concat(parts).equals(whole)).toBe(true)
      own.close()
    }
  })

  it.each<[string, () => Promise<RunnerClient>]>([
    ['a socket that lends', lending],
    ['a plain socket', () => RunnerClient.connectUnix(runner.socket)],
  ])('are unchanged for a consumer that keeps lent chunks for long, on %s', async (_, connect) => {
    const path = join(folder(), 'large')
    const whole = new Random(7).bytes(24 * 1024 * 1024 + 12_345)
    await client.files.write(path, whole)
    const own = await connect()
    const read = async (keptMs: number) => {
      const parts: Buffer[] = []
      let [kept, most] = [0, 0]
      const { content } = await own.files.readStream(path)
      await content.lend((piece, done) => {
        const at = parts.push(Buffer.alloc(0)) - 1
        kept += piece.length
        most = Math.max(most, kept)
        const take = () => {
          kept -= piece.length
          parts[at] = Buffer.from(piece)
          done()
        }
        if (at % 7 === 0) setTimeout(take, keptMs)
        else if (at % 7 === 1) setImmediate(take)
        else take()
      })
      while (kept > 0) await new Promise((resolve) => setTimeout(resolve, keptMs))
      // Only unreleased chunks can be in flight.
      expect(most).toBeLessThanOrEqual(2 * 1024 * 1024)
      return Buffer.concat(parts)
    }
    const [slow, fast, iterated] = await Promise.all([read(20), read(1), own.files.read(path)])
    for (const bytes of [slow, fast, iterated]) expect(bytes.equals(whole)).toBe(true)
    own.close()
  })

  it('can be abandoned while chunks are lent', async () => {
    const path = join(folder(), 'large')
    await client.files.write(path, new Random(8).bytes(8 * 1024 * 1024))
    const own = await lending()
    for (let round = 0; round < 20; round += 1) {
      const { content } = await own.files.readStream(path)
      let pieces = 0
      await content.lend((_piece, done) => {
        pieces += 1
        if (round % 2 === 0) done()
        else setImmediate(done)
        if (pieces === 1 + round) content.cancel()
      })
      expect(pieces).toBe(1 + round)
    }
    expect((await own.files.stat(path)).size).toBe(8 * 1024 * 1024)
    own.close()
  })

  it('are not lent after the consumer throws; its error is the result, and the connection stays usable', async () => {
    const path = join(folder(), 'large')
    await client.files.write(path, new Random(8).bytes(8 * 1024 * 1024))
    const own = await lending()
    for (const last of [1, 2, 30]) {
      const { content } = await own.files.readStream(path)
      let pieces = 0
      const lent = content.lend((_piece, done) => {
        pieces += 1
        done()
        if (pieces === last) throw new Error('no more')
      })
      await expect(lent).rejects.toThrow('no more')
      expect(pieces).toBe(last)
    }
    expect((await own.files.stat(path)).size).toBe(8 * 1024 * 1024)
    own.close()
  })

  it('fail when the runner exits while chunks are lent', async () => {
    const own = await startRunner()
    const path = join(own.folder, 'large')
    const connected = await own.connect()
    await connected.files.write(path, new Random(9).bytes(8 * 1024 * 1024))
    const { content } = await connected.files.readStream(path)
    // No chunk is released, so the transfer cannot finish.
    const lost = expect(content.lend(() => {})).rejects.toMatchObject({ code: 'connection_lost' })
    await own[Symbol.asyncDispose]()
    await lost
  })
})
