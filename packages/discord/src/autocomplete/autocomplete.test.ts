import type { SandboxRecord } from '@sandkasten/registry'
import { describe, expect, it, vi } from 'vitest'
import type { Call, Place } from '../commands/command.ts'
import { Autocomplete } from './autocomplete.ts'

const call = { guildId: 'g', channelId: 'c' } as Call
const record = (name: string, more: Partial<SandboxRecord> = {}) =>
  ({ name, provider: 'p', status: 'running', unreachable: false, channelId: 'c', ...more }) as SandboxRecord

function open(sandboxes: (scope: object, options?: { refresh?: boolean }) => Promise<SandboxRecord[]>) {
  const onError = vi.fn()
  const place = { appId: 'a', kinds: [], threads: { sandboxes } } as unknown as Place
  return { autocomplete: new Autocomplete(place, onError), onError }
}

describe('suggestions', () => {
  it('come from the store while a provider hangs, and the provider is asked once', async () => {
    const asked = vi.fn()
    const { autocomplete } = open(async (_, { refresh } = {}) => {
      if (!refresh) return [record('brave-otter'), record('calm-fox', { status: 'stopped' })]
      asked()
      return new Promise(() => {})
    })
    for (let typed = 0; typed < 5; typed += 1)
      expect(await autocomplete.suggest(call, 'sandbox', 'FOX')).toEqual([
        { name: 'calm-fox (p, stopped)', value: 'calm-fox' },
      ])
    expect(asked).toHaveBeenCalledOnce()
  })

  it('are those of the channel, and at most 25', async () => {
    const many = Array.from({ length: 100 }, (_, at) => record(`box-${at}`))
    const { autocomplete } = open(async () => [record('elsewhere', { channelId: 'd' }), ...many])
    expect(await autocomplete.suggest(call, 'sandbox', 'elsewhere')).toEqual([])
    expect(await autocomplete.suggest(call, 'sandbox', '')).toHaveLength(25)
  })

  it('are left out, in time, if the store hangs or fails', async () => {
    const hanging = open(() => new Promise(() => {}))
    vi.useFakeTimers()
    const late = hanging.autocomplete.suggest(call, 'sandbox', '')
    await vi.advanceTimersByTimeAsync(2000)
    vi.useRealTimers()
    expect(await late).toEqual([])
    const failing = open(async () => Promise.reject(new Error('no disk')))
    expect(await failing.autocomplete.suggest(call, 'sandbox', '')).toEqual([])
    expect(failing.onError).toHaveBeenCalled()
  })
})
