import { expect, it } from 'vitest'
import { ConcurrencyLimit } from './concurrency-limit.ts'

it('limits the concurrent calls of a project, in order; other projects are independent', async () => {
  const turns = new ConcurrencyLimit(2)
  const open = Array.from({ length: 4 }, () => Promise.withResolvers<void>())
  const begun: string[] = []
  const run = (name: string, at: number, project = 'p') =>
    turns.run(project, undefined, async () => {
      begun.push(name)
      await open[at]!.promise
    })
  const gone = new AbortController()
  const all = [run('a', 0), run('b', 1)]
  const left = turns.run('p', gone.signal, async () => void begun.push('never'))
  all.push(run('c', 2), run('other', 3, 'q'))
  gone.abort()
  await expect(left).rejects.toMatchObject({ code: 'aborted' })
  expect(begun).toEqual(['a', 'b', 'other'])
  open[0]!.resolve()
  await expect.poll(() => begun).toEqual(['a', 'b', 'other', 'c'])
  for (const { resolve } of open) resolve()
  await Promise.all(all)
})
