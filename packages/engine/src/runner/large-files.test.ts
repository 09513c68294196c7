import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { RunnerClient } from '@sandkasten/sdk/runner'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Random } from '../../../sdk/src/runner/test-helper.ts'
import { fresh, startRunner, type TestRunner } from './testing/harness.ts'

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

describe('large files', () => {
  it('stream 100 MiB both ways without growing', async () => {
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

  it('are the same bytes for a reader who is slow, beside others on his connection', async () => {
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

  it('are the same bytes when nobody reads from the socket for a while', async () => {
    const path = join(folder(), 'large')
    const whole = new Random(4).bytes(4 * 1024 * 1024 + 7)
    await client.files.write(path, whole)
    for (let round = 0; round < 20; round += 1) {
      const own = await runner.connect()
      const { content } = await own.files.readStream(path)
      const parts: Buffer[] = []
      for await (const part of content) {
        parts.push(Buffer.from(part))
        // This process does nothing at all meanwhile: what is sent fills the socket, in the middle of a frame.
        if (parts.length % 5 === round % 5) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2)
      }
      expect(Buffer.concat(parts).equals(whole)).toBe(true)
      own.close()
    }
  })
})
