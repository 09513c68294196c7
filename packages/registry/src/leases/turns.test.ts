import { expect, it } from 'vitest'
import { Turns } from './turns.ts'

const soon = () => new Promise((resolve) => setImmediate(resolve))

it('gives turns in order, and separately for each key', async () => {
  const turns = new Turns()
  const order: string[] = []
  const end = await turns.take('a')
  expect(turns.isTaken('a')).toBe(true)
  expect(turns.isTaken('b')).toBe(false)
  const others = ['first', 'second'].map(async (name) => {
    const endMine = await turns.take('a')
    order.push(name)
    endMine()
    endMine()
  })
  ;(await turns.take('b'))()
  await soon()
  expect(order).toEqual([])
  end()
  await Promise.all(others)
  expect(order).toEqual(['first', 'second'])
  expect(turns.isTaken('a')).toBe(false)
})

it('lets a caller leave the queue: by its signal, or after its time', async () => {
  const turns = new Turns()
  const end = await turns.take('a')
  const controller = new AbortController()
  const aborted = turns.take('a', { signal: controller.signal })
  const impatient = turns.take('a', { waitMs: 5 })
  const patient = turns.take('a', { waitMs: 60_000, signal: controller.signal })
  const last = turns.take('a')
  await expect(impatient).rejects.toMatchObject({ code: 'conflict' })
  controller.abort()
  await expect(aborted).rejects.toMatchObject({ code: 'aborted' })
  await expect(patient).rejects.toMatchObject({ code: 'aborted' })
  await expect(turns.take('a', { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'aborted' })
  end()
  ;(await last)()
  expect(turns.isTaken('a')).toBe(false)
})
