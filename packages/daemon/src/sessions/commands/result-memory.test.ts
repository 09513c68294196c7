import { describe, expect, it } from 'vitest'
import { type ResultAccount, ResultMemory } from './result-memory.ts'

const mebibyte = 1024 * 1024

async function readingMs(account: ResultAccount, bytes: number): Promise<number> {
  const startedAt = performance.now()
  for (let read = 0; read < bytes; read += 65_536) await account.pace(65_536)
  return performance.now() - startedAt
}

describe('reading output', () => {
  it('is limited for a project with neighbours, after its first 64 MiB', async () => {
    const memory = new ResultMemory(mebibyte)
    const neighbour = memory.open('neighbour')
    const [first, second] = [memory.open('loud'), memory.open('loud')]
    await readingMs(first, 72 * mebibyte)
    // The limit holds for the project, not for each command.
    expect(await readingMs(second, 9 * mebibyte)).toBeGreaterThan(400)
    expect(await readingMs(neighbour, 9 * mebibyte)).toBeLessThan(400)
  })

  it('is not limited for a project that is alone', async () => {
    const memory = new ResultMemory(mebibyte)
    const account = memory.open('alone')
    // With the limit, this takes 12 s.
    expect(await readingMs(account, 256 * mebibyte)).toBeLessThan(6_000)
    memory.open('neighbour')
    expect(await readingMs(account, 9 * mebibyte)).toBeLessThan(400)
  })
})
