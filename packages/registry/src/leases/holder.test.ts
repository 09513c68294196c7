import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { pidOf, stateOf, thisHolder } from './holder.ts'

it('this process is alive, and its pid is known', async () => {
  const holder = await thisHolder()
  expect(await stateOf(holder)).toBe('alive')
  expect(pidOf(holder)).toBe(process.pid)
})

it('a process that has ended is dead, also if its pid is used again', async () => {
  const child = spawn('true')
  await once(child, 'exit')
  const own = JSON.parse(await thisHolder())
  expect(await stateOf(JSON.stringify({ ...own, pid: child.pid }))).toBe('dead')
  expect(await stateOf(JSON.stringify({ ...own, started: '1' }))).toBe('dead')
})

it.each(['', 'null', '7', '{}', '{"pid":1}', '{"machine":"elsewhere","pid":1}', '{"machine":"x","pid":-1}'])(
  'of %j only the beat tells whether it lives',
  async (holder) => {
    expect(await stateOf(holder)).toBe('elsewhere')
    expect(pidOf(holder)).toBeUndefined()
  },
)
