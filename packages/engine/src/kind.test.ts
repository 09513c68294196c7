import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { EngineProvider } from './index.ts'
import { engineKind, secretsOf } from './kind.ts'

it('makes an engine from strings, at its place', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'sk-kind-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const warnings: string[] = []
  const kind = engineKind({ folder, onWarning: (message) => warnings.push(message) })
  expect(kind).toMatchObject({ provider: 'engine', alternatives: [[]] })
  expect(kind.fields.map(({ flag }) => flag)).toEqual(['isolator', 'runtime'])
  const provider = kind.make({ isolator: 'process' }) as EngineProvider
  onTestFinished(() => provider[Symbol.asyncDispose]())
  expect(provider.name).toBe('engine')
  expect(provider.decision.isolator).toBe('process')
  const sandbox = await provider.create()
  expect((await sandbox.runCommand({ cmd: 'echo', args: ['hello'] })).stdout).toBe('hello\n')
  expect(await readdir(folder)).not.toEqual([])
  await sandbox.destroy()
})

it('refuses what it does not know, with the nearest name', () => {
  const kind = engineKind()
  expect(() => kind.make({ isolatr: 'oci' })).toThrow(
    expect.objectContaining({ code: 'invalid_argument', message: expect.stringContaining('isolatr') }),
  )
  expect(() => kind.make({ isolator: 'vm' })).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
})

it('asks the registry for a secret first', async () => {
  const subject = { sandboxId: 'a', labels: { owner: 'me' } }
  const stored = async (name: string, about?: { labels: object }) =>
    name === 'stored' ? `stored for ${JSON.stringify(about?.labels)}` : undefined
  const both = secretsOf({ secrets: stored }, { stored: 'hidden', other: 'of the options' })
  const ask = (name: string) => (typeof both === 'function' ? both(name, subject) : undefined)
  expect(await ask('stored')).toBe('stored for {"owner":"me"}')
  expect(await ask('other')).toBe('of the options')
  expect(await ask('none')).toBeUndefined()
  expect(await ask('toString')).toBeUndefined()
  expect(secretsOf({}, { a: 'b' })).toEqual({ a: 'b' })
  expect(secretsOf({}, undefined)).toBeUndefined()
})
