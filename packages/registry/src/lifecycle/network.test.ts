import { SandboxError, supports } from '@sandkasten/sdk'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { expect, it, onTestFinished } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import type { DatabaseLocation } from '../store/index.ts'
import { killHolder } from '../store/testing/beside.ts'
import { gate, openTestRegistry, wrap } from './testing/registry.ts'

const wide = { allow: ['a.example', 'b.example'] }
const narrow = { allow: ['a.example'] }
const hostsOf = (network: unknown) =>
  typeof network === 'object'
    ? (network as { allow: Array<{ host: string }> }).allow.map(({ host }) => host)
    : network

async function begin(location: DatabaseLocation) {
  const memory = new MemoryProvider()
  const wrapped = wrap(memory)
  const registry = await openTestRegistry(location, wrapped.provider)
  const { sandboxes } = registry
  onTestFinished(async () => {
    for (const { id } of await memory.list()) await memory.destroy(id)
  })
  /** What the sandbox has at the provider. */
  const inForce = async (name = 'demo') => {
    const { providerSandboxId } = await sandboxes.get(name)
    return hostsOf((await memory.get(providerSandboxId!, { resume: false })).network)
  }
  const known = async (name = 'demo') => hostsOf((await sandboxes.get(name)).network)
  /** As if the provider had ended it. */
  const lose = async (name = 'demo') => memory.destroy((await sandboxes.get(name)).providerSandboxId!)
  return { ...wrapped, registry, sandboxes, memory, inForce, known, lose }
}

describeOnEachDatabase('the network of a named sandbox', (place) => {
  it('is set while it runs, recorded, and restored with the snapshot', async () => {
    const { sandboxes, inForce, known, lose } = await begin(await place())
    await sandboxes.create({ name: 'demo', network: wide })
    expect(await known()).toEqual(['a.example', 'b.example'])
    await sandboxes.snapshot('demo')
    const record = await sandboxes.setNetwork('demo', narrow)
    expect(hostsOf(record.network)).toEqual(['a.example'])
    expect(await inForce()).toEqual(['a.example'])
    await lose()
    await sandboxes.resume('demo')
    expect([await inForce(), await known()]).toEqual([['a.example'], ['a.example']])
    await sandboxes.setNetwork('demo', 'none')
    expect([await inForce(), await known()]).toEqual(['none', 'none'])
  })

  it('is the one of the snapshot, if a caller of the handle has replaced it', async () => {
    const { sandboxes, inForce, known, lose } = await begin(await place())
    const { handle } = await sandboxes.create({ name: 'demo', network: wide })
    if (!supports(handle, 'egress')) expect.unreachable()
    await handle.setNetwork(narrow)
    await sandboxes.snapshot('demo')
    expect(await known()).toEqual(['a.example'])
    await lose()
    await sandboxes.resume('demo')
    expect(await inForce()).toEqual(['a.example'])
  })

  it('of a stopped sandbox is in force when it starts', async () => {
    const { sandboxes, inForce, instead } = await begin(await place())
    await sandboxes.create({ name: 'demo', network: wide })
    await sandboxes.stop('demo')
    // As a vendor that changes only running sandboxes.
    instead.setNetwork = async () => {
      throw new SandboxError('not_running', 'It does not run.')
    }
    await sandboxes.setNetwork('demo', narrow)
    expect(await inForce()).toEqual(['a.example', 'b.example'])
    instead.setNetwork = undefined
    const { record } = await sandboxes.resume('demo')
    expect([await inForce(), hostsOf(record.network)]).toEqual([['a.example'], ['a.example']])
  })

  it('of a sandbox that has only its snapshot is in force after the restore', async () => {
    const { sandboxes, inForce, known, lose } = await begin(await place())
    await sandboxes.create({ name: 'demo', network: wide })
    await sandboxes.snapshot('demo')
    await lose()
    await sandboxes.setNetwork('demo', narrow)
    expect(await known()).toEqual(['a.example'])
    await sandboxes.resume('demo')
    expect(await inForce()).toEqual(['a.example'])
  })

  it('stays as it was when the provider refuses, and wrong ones are refused before', async () => {
    const { sandboxes, inForce, known, instead, counts } = await begin(await place())
    await sandboxes.create({ name: 'demo', network: narrow })
    await expect(sandboxes.setNetwork('demo', { allow: ['https://a.example'] })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    const large = {
      allow: Array.from({ length: 1_000 }, (_, at) => `${'x'.repeat(60)}.${'y'.repeat(50)}${at}.example`),
    }
    await expect(sandboxes.setNetwork('demo', large)).rejects.toMatchObject({ code: 'too_large' })
    expect(counts.setNetwork).toBeUndefined()
    instead.setNetwork = async () => {
      throw new SandboxError('conflict', 'Only when it is stopped.')
    }
    await expect(sandboxes.setNetwork('demo', wide)).rejects.toMatchObject({ code: 'conflict' })
    expect([await inForce(), await known()]).toEqual([['a.example'], ['a.example']])
  })

  it('of a provider without the ability cannot be set', async () => {
    const provider = new MemoryProvider({ capabilities: { egress: false } })
    const { sandboxes } = await openTestRegistry(await place(), provider)
    await sandboxes.create({ name: 'demo' })
    await expect(sandboxes.setNetwork('demo', 'none')).rejects.toMatchObject({ code: 'unsupported' })
  })

  it('a change that its process did not finish is finished by the next one', async () => {
    const location = await place()
    const { sandboxes, memory, instead, known } = await begin(location)
    await sandboxes.create({ name: 'demo', network: wide })
    const away = gate()
    instead.setNetwork = async () => {
      await away.pass()
      throw new SandboxError('interrupted', 'The process was killed.')
    }
    const lost = sandboxes.setNetwork('demo', narrow).catch((error: unknown) => error)
    await away.reached
    await killHolder(location, 'demo')
    const other = await openTestRegistry(location, memory)
    const { handle, record } = await other.sandboxes.resume('demo')
    expect([hostsOf(handle.network), hostsOf(record.network)]).toEqual([['a.example'], ['a.example']])
    away.open()
    expect(SandboxError.is(await lost)).toBe(true)
    expect(await known()).toEqual(['a.example'])
  })
})
