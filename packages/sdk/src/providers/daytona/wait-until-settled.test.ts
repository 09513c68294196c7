import { describe, expect, it } from 'vitest'
import { SandboxError } from '../../errors.ts'
import type { DaytonaSandboxObject } from './sdk.ts'
import { infoOf, managedLabel, nameLabel, setupLabel, vendorName } from './translation.ts'
import { awaken, settled } from './wait-until-settled.ts'

/** A fake of the vendor's object: each refresh returns the next state. It covers states that our front never has. */
function incarnation(states: string[], more: Partial<DaytonaSandboxObject> = {}) {
  const calls: string[] = []
  const object = {
    id: 'box',
    state: states[0],
    ...more,
    async refreshData() {
      calls.push('look')
      states.shift()
      if (states.length === 0)
        throw Object.assign(new Error('gone'), { statusCode: 404, name: 'DaytonaNotFoundError' })
      object.state = states[0]
    },
    async start() {
      calls.push('start')
      object.state = 'started'
    },
    async recover() {
      calls.push('recover')
      object.state = 'started'
    },
  }
  return { object: object as unknown as DaytonaSandboxObject, calls, states }
}

const timeLimits = { startMs: 10_000, requestMs: 1000 }

async function code(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return SandboxError.is(error) ? error.code : String(error)
}

describe('state changes', () => {
  it.each([
    [['started'], []],
    [['stopped'], ['start']],
    [['paused'], ['start']],
    [['archived'], ['start']],
    [
      ['creating', 'pulling_snapshot', 'started'],
      ['look', 'look'],
    ],
    [
      ['stopping', 'stopped'],
      ['look', 'start'],
    ],
    [
      ['archiving', 'archived'],
      ['look', 'start'],
    ],
    [
      ['restoring', 'starting', 'started'],
      ['look', 'look'],
    ],
  ])('%j is awake after %j', async (states, calls) => {
    const made = incarnation([...states])
    await awaken(made.object, timeLimits, {})
    expect(made.calls).toEqual(calls)
  })

  it('recovers from a recoverable error; reports any other with its reason', async () => {
    const good = incarnation(['error'], { recoverable: true })
    await awaken(good.object, timeLimits, {})
    expect(good.calls).toEqual(['recover'])
    expect(infoOf(incarnation(['error'], { recoverable: true }).object).status).toBe('stopped')
    const bad = incarnation(['build_failed'], { errorReason: 'no space' })
    const error = await awaken(bad.object, timeLimits, {}).catch((thrown: SandboxError) => thrown)
    expect(error).toMatchObject({ code: 'provider_error', details: { reason: 'no space' } })
    expect(bad.calls).toEqual([])
  })

  it('reports a sandbox that is destroyed, also during the wait, as not_found', async () => {
    expect(await code(awaken(incarnation(['destroyed']).object, timeLimits, {}))).toBe('not_found')
    expect(await code(awaken(incarnation(['starting']).object, timeLimits, {}))).toBe('not_found')
  })

  it('stops waiting at the timeout and on abort', async () => {
    const slow = incarnation(Array.from({ length: 1000 }, () => 'starting'))
    expect(await code(settled(slow.object, { startMs: 1, requestMs: 1 }, {}))).toBe('timeout')
    const controller = new AbortController()
    const waiting = settled(slow.object, timeLimits, { signal: controller.signal })
    controller.abort()
    expect(await code(waiting)).toBe('aborted')
  })

  it('waits for a creator during the setup, but not for a dead one', async () => {
    const long = new Date(Date.now() - 3_600_000).toISOString()
    expect(
      await code(
        settled(incarnation(['started'], { labels: { [setupLabel]: long } }).object, timeLimits, {}),
      ),
    ).toBe('conflict')
  })

  it('maps every state to one of ours, and an unknown state to unknown', () => {
    const statuses = (state: string) => infoOf(incarnation([state]).object)
    expect(statuses('started')).toMatchObject({ status: 'running', rawStatus: 'started' })
    expect(statuses('snapshotting').status).toBe('running')
    expect(statuses('archived').status).toBe('archived')
    expect(statuses('error').status).toBe('failed')
    expect(statuses('some-new-state')).toMatchObject({ status: 'unknown', rawStatus: 'some-new-state' })
    const info = infoOf(
      incarnation(['started'], { labels: { a: 'b', [managedLabel]: 'true', [nameLabel]: 'n' } }).object,
    )
    expect(info).toMatchObject({ name: 'n', labels: { a: 'b' } })
    expect(info.createdAt).toBeUndefined()
  })

  it('maps a name that the vendor refuses to a stable other name', async () => {
    expect(await vendorName('my-agent.1')).toBe('my-agent.1')
    const odd = await vendorName('ü / “odd”')
    expect(odd).toMatch(/^sk-[0-9a-f]{40}$/)
    expect(await vendorName('ü / “odd”')).toBe(odd)
    expect(await vendorName('ü / “even”')).not.toBe(odd)
  })
})
