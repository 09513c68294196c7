import { expect, it } from 'vitest'
import { coalesce } from './coalesce.ts'

it('callers during a run share the next run, which begins after their call', async () => {
  const begun: (() => void)[] = []
  let asked = 0
  const ask = coalesce(async () => {
    const seen = asked
    await new Promise<void>((resolve) => begun.push(resolve))
    return seen
  })
  const askAs = (n: number) => {
    asked = n
    return ask()
  }
  const first = askAs(1)
  await expect.poll(() => begun.length).toBe(1)
  const others = [askAs(2), askAs(3), askAs(4)]
  begun[0]!()
  expect(await first).toBe(1)
  await expect.poll(() => begun.length).toBe(2)
  begun[1]!()
  expect(await Promise.all(others)).toEqual([4, 4, 4])
  expect(begun).toHaveLength(2)
})

it('a failed run rejects the calls that shared it, and no later ones', async () => {
  let times = 0
  const ask = coalesce(async () => {
    times += 1
    if (times === 1) throw new Error('once')
    return times
  })
  const results = await Promise.allSettled([ask(), ask()])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await ask()).toBe(2)
})
