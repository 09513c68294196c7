import { describe, expect, it } from 'vitest'
import { MemoryProvider } from '../../providers/memory/index.ts'
import type { SandboxProvider } from '../../spec/index.ts'
import { behaviours } from '../behaviours/index.ts'
import { memoryCommands, memoryEgress } from '../memory-commands.ts'
import { runConformance } from '../run.ts'
import { brokenProviders, setUp } from './index.ts'
import { nothingProvider } from './nothing.ts'
import { brokenShell } from './shell.ts'

const limits = {
  behaviourMs: 800,
  commandTimeoutMs: 20,
  lifetimeMs: 60,
  bigFileBytes: 8 * 1024 * 1024,
  floodBytes: 5 * 1024 * 1024,
}

/** Behaviours that nothing breaks here, with the reason. */
const unbroken = {
  'port-reachable': 'no server runs in the memory provider; every other provider of this repository has one',
}

describe('the kit can fail', () => {
  it('has at least a hundred broken providers, each with a unique name and behaviours that exist', () => {
    expect(brokenProviders.length).toBeGreaterThanOrEqual(100)
    expect(new Set(brokenProviders.map(({ name }) => name)).size).toBe(brokenProviders.length)
    const ids = behaviours.map(({ id }) => id)
    for (const { name, caughtBy } of brokenProviders)
      expect(ids, name).toEqual(expect.arrayContaining([...caughtBy]))
  })

  it('finds no fault in the provider that the broken ones are based on', async () => {
    const provider = new MemoryProvider()
    const report = await run(provider, provider, undefined, 30_000)
    expect(report.failed.map(({ id, error }) => `${id}: ${error?.message}`)).toEqual([])
    expect(report.leftovers).toBeUndefined()
  })

  it('finds no fault in the shell that the broken ones are based on', async () => {
    const { working, provider } = setUp({
      options: { shell: () => 0 },
      make: (real, sharedState) =>
        brokenShell(real, sharedState, ({ current }) => current?.deliver('SIGKILL')),
    })
    const ids = ['shell-timeout-orphan', 'shell-abort-orphan', 'shell-close-orphan']
    const report = await run(provider, working, ids, 30_000)
    expect(report.results.map(({ id, status, error }) => [id, status, error?.message])).toEqual(
      ids.map((id) => [id, 'passed', undefined]),
    )
  })

  it('has a broken provider for every behaviour that a provider passes which does nothing', async () => {
    const report = await runConformance({
      provider: nothingProvider,
      without: {
        server: 'nothing listens',
        connect: 'nothing connects',
        reopen: 'nothing to open',
        leftovers: 'nothing to leave',
      },
      limits: { ...limits, behaviourMs: 300 },
    })
    const caught = new Set(brokenProviders.flatMap(({ caughtBy }) => caughtBy as readonly string[]))
    const held = report.results.filter(({ id, status }) => status !== 'failed' && !caught.has(id))
    expect(held.map(({ id }) => id)).toEqual(Object.keys(unbroken))
  })

  it.each(brokenProviders)('$name: $what', async (broken) => {
    const { working, provider } = setUp(broken)
    // Runs only the groups that must catch it; a hang elsewhere would only cost time.
    const groups = new Set(
      behaviours.filter(({ id }) => broken.caughtBy.includes(id)).map(({ group }) => group),
    )
    const report = await run(provider, working, [...groups])
    const failed = report.failed.map(({ id }) => id)
    expect(failed).toEqual(expect.arrayContaining([...broken.caughtBy]))
    for (const { id, error } of report.failed) expect(error?.message, id).toBeTruthy()
  })
})

function run(
  provider: SandboxProvider,
  working: MemoryProvider,
  only?: string[],
  behaviourMs = limits.behaviourMs,
) {
  return runConformance({
    provider: () => provider,
    commands: memoryCommands(working),
    egress: memoryEgress,
    leftovers: (id) => working.running(id),
    without: { server: 'memory has no network', reopen: 'the broken object is the one to look at' },
    runtimes: ['node24'],
    limits: { ...limits, behaviourMs },
    only,
  })
}
