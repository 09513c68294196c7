import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { MemoryProvider } from '../providers/memory/index.ts'
import { abilityCalls } from './absent.ts'
import { equal, rejects, sameBytes } from './assert.ts'
import { behaviours, conformance, memoryCommands, posixCommands, runConformance } from './index.ts'

const without = {
  server: 'no network',
  connect: 'no network',
  reopen: 'one object',
  leftovers: 'no process looks',
}

describe('the table of behaviours', () => {
  it('has at least 330 behaviours, each with a unique id', () => {
    expect(behaviours.length).toBeGreaterThanOrEqual(330)
    expect(new Set(behaviours.map(({ id }) => id)).size).toBe(behaviours.length)
    expect(new Set(behaviours.map(({ name }) => name)).size).toBe(behaviours.length)
  })

  it('names each with a sentence', () => {
    for (const { id, name } of behaviours) {
      expect(name, id).toMatch(/^\S/)
      expect(name.split(' ').length, id).toBeGreaterThan(4)
    }
  })

  it('covers every ability', () => {
    const asked = new Set(behaviours.flatMap(({ needs = [] }) => needs))
    for (const ability of Object.keys(abilityCalls)) expect(asked).toContain(ability)
  })
})

describe('runConformance', () => {
  it('runs the behaviours that `only` names, and rejects an unknown name', async () => {
    const provider = new MemoryProvider()
    const options = { provider: () => provider, commands: memoryCommands(provider), without }
    const report = await runConformance({ ...options, only: ['exit-3', 'ports'] })
    expect(report.results.map(({ id }) => id)).toEqual([
      'exit-3',
      'endpoint',
      'endpoint-protocol',
      'endpoint-forwarded',
      'ports-declared',
      'bad-port',
      'port-reachable',
    ])
    expect(report.excused).toMatchObject([{ id: 'port-reachable', note: 'no program “server”: no network' }])
    expect(report.failed).toEqual([])
    await expect(runConformance({ ...options, only: ['exit-4'] })).rejects.toThrow(
      'no behaviour and no group “exit-4”',
    )
  })

  it('requires a reason for a missing program', async () => {
    const provider = new MemoryProvider()
    const options = { provider: () => provider, commands: memoryCommands(provider) }
    await expect(runConformance(options)).rejects.toThrow('without: { reopen')
  })

  it('reports what was asserted instead if an ability is absent', async () => {
    const provider = new MemoryProvider({ capabilities: { fork: false } })
    const report = await runConformance({
      provider: () => provider,
      commands: memoryCommands(provider),
      without,
      only: ['fork'],
    })
    expect(report.results).toMatchObject([
      { id: 'fork', status: 'passed', note: 'absent: fork; its calls throw unsupported' },
    ])
  })

  it('fails a provider that declares an ability without implementing it', async () => {
    const provider = new MemoryProvider({ shell: () => 0 })
    const report = await runConformance({
      provider: () => provider,
      commands: memoryCommands(provider),
      without,
      only: ['shell-exit-code'],
    })
    expect(report.failed[0]?.error?.message).toContain('exit code: expected 42, got 0')
  })

  it('removes what a failed behaviour created', async () => {
    const provider = new MemoryProvider()
    provider.fault({ on: 'readStream', error: 'internal', times: Infinity })
    const report = await runConformance({
      provider: () => provider,
      commands: memoryCommands(provider),
      without,
      only: ['get-by-id', 'create-apart'],
    })
    expect(report.failed.map(({ id }) => id)).toEqual(['get-by-id'])
    expect(await provider.list()).toEqual([])
  })
})

describe('conformance', () => {
  it('needs only describe and it', async () => {
    const tests: Array<[name: string, body: () => Promise<void>]> = []
    const runner = {
      describe: (_: string, body: () => void) => body(),
      it: (name: string, body: () => Promise<void>) => tests.push([name, body]),
    }
    const provider = new MemoryProvider()
    conformance({
      provider: () => provider,
      commands: memoryCommands(provider),
      without,
      runner,
      only: ['exit-0', 'destroy'],
    })
    expect(tests.map(([name]) => name).at(-1)).toBe('The kit leaves nothing behind')
    for (const [, body] of tests) await body()
    expect(await provider.list()).toEqual([])
  })

  it('runs on node:test', async () => {
    const script = `
      import { describe, it } from 'node:test'
      import { MemoryProvider } from '@sandkasten/sdk/memory'
      import { conformance, memoryCommands } from '@sandkasten/sdk/testing'
      const provider = new MemoryProvider()
      const without = { server: 'no network', connect: 'no network', reopen: 'one object', leftovers: 'no process looks' }
      conformance({ provider: () => provider, commands: memoryCommands(provider), without, runner: { describe, it }, only: ['output', 'names'] })`
    const args = [
      '--conditions=sandkasten-source',
      '--test-reporter=tap',
      '--input-type=module-typescript',
      '-e',
      script,
    ]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: import.meta.dirname })
    const count = behaviours.filter(({ group }) => group === 'output' || group === 'names').length + 1
    expect(stdout).toContain(`# pass ${count}`)
    expect(stdout).toContain('# fail 0')
  })
})

describe('assertions', () => {
  it('report the expected and the actual value', async () => {
    expect(() => equal([1, 2], [1, 3], 'numbers')).toThrow('numbers: expected [1,3], got [1,2]')
    expect(() => equal<unknown>('1', 1, 'value')).toThrow('value: expected 1, got "1"')
    expect(() => equal<unknown>(undefined, null, 'value')).toThrow()
    expect(() => equal<unknown>([undefined], [null], 'value')).toThrow()
    expect(() => equal(`${'x'.repeat(1000)}a`, `${'x'.repeat(1000)}b`, 'long')).toThrow('long')
    expect(() => equal(Uint8Array.of(1), Uint8Array.of(1), 'bytes')).toThrow()
    equal({ a: [1, { b: undefined }] }, { a: [1, { b: undefined }] }, 'deep')
    expect(() => sameBytes(Uint8Array.of(1, 2), Uint8Array.of(1, 3), 'bytes')).toThrow(
      'bytes: byte 1 is 2, expected 3',
    )
    await expect(rejects(Promise.resolve(7), 'not_found', 'get')).rejects.toThrow(
      'get: expected not_found, but it succeeded with 7',
    )
    await expect(rejects(Promise.reject(new Error('plain')), 'not_found', 'get')).rejects.toThrow(
      'expected a SandboxError not_found, got Error: plain',
    )
  })
})

describe('posixCommands', () => {
  it('passes values as arguments, never inside the script', () => {
    const { args } = posixCommands().print('$(touch hacked)')
    expect(args).toEqual(['-c', 'printf %s "$1"', 'sh', '$(touch hacked)'])
  })
})
