import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { AgentStream } from '../guest/agent.ts'
import { Bridge } from './bridge.ts'

function endless() {
  const seen: string[] = []
  const stream = {
    idle: (value: boolean) => seen.push(value ? 'idle' : 'busy'),
    close: () => seen.push('closed'),
    chunk: () => new Promise(() => {}),
  }
  return { seen, stream: stream as unknown as AgentStream }
}

it('closes an idle session after a while', async () => {
  const { seen, stream } = endless()
  const bridge = new Bridge(stream, 1)
  bridge.unref()
  await once(bridge, 'close')
  expect(seen).toEqual(['idle', 'closed'])
})

it('keeps a session while a request is pending', async () => {
  const { seen, stream } = endless()
  const bridge = new Bridge(stream, 1)
  bridge.unref()
  bridge.ref()
  await sleep(20)
  expect([bridge.destroyed, seen]).toEqual([false, ['idle', 'busy']])
  bridge.destroy()
})
