import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { LocalProvider } from '../providers/local/index.ts'
import {
  getSandboxExecutor,
  LocalSandboxExecutor,
  ProviderSandboxExecutor,
  sandboxTools,
  VercelSandboxExecutor,
} from './index.ts'

const directory = await mkdtemp(path.join(tmpdir(), 'sandkasten-executors-'))
afterAll(() => rm(directory, { recursive: true, force: true }))

describe('getSandboxExecutor', () => {
  it('chooses Vercel if VERCEL=1, and this machine otherwise', () => {
    expect(getSandboxExecutor({ env: { VERCEL: '1' } })).toBeInstanceOf(VercelSandboxExecutor)
    expect(getSandboxExecutor({ env: {} })).toBeInstanceOf(LocalSandboxExecutor)
    expect(getSandboxExecutor({ env: { VERCEL: '0' } })).toBeInstanceOf(LocalSandboxExecutor)
  })

  it('prefers an explicit choice over the environment (142)', () => {
    expect(getSandboxExecutor({ kind: 'local', directory })).toBeInstanceOf(LocalSandboxExecutor)
    const provider = new LocalProvider({ root: directory, acceptNoIsolation: true })
    expect(getSandboxExecutor({ provider })).toBeInstanceOf(ProviderSandboxExecutor)
    expect(() => getSandboxExecutor({ kind: 'docker' } as never)).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    )
  })

  it('refuses unknown options and suggests a known one', async () => {
    const wrong: ReadonlyArray<[make: () => unknown, hint: string]> = [
      [() => getSandboxExecutor({ conversation: 'a' } as never), 'conversationId'],
      [() => getSandboxExecutor({ keepAlive: false } as never), 'kind, provider'],
      [() => getSandboxExecutor({ kind: 'local', directory, conversation: 'a' } as never), 'conversationId'],
      [
        () => sandboxTools(getSandboxExecutor({ kind: 'local', directory }), { timeout: 5 } as never),
        'timeoutMs',
      ],
    ]
    for (const [make, hint] of wrong)
      expect(make).toThrow(
        expect.objectContaining({ code: 'invalid_argument', hint: expect.stringContaining(hint) }),
      )
    const executor = getSandboxExecutor({ kind: 'local', directory })
    await expect(executor.execute('true', [], { timeoutMs: 5 } as never)).rejects.toMatchObject({
      code: 'invalid_argument',
      hint: 'Did you mean `timeout`?',
    })
    expect(await executor.execute('true', [], { env: { PATH: undefined } })).toMatchObject({ exitCode: 0 })
    await executor.cleanup()
  })

  it('names the missing Vercel credentials when a sandbox is needed', async () => {
    await expect(getSandboxExecutor({ kind: 'vercel' }).execute('true')).rejects.toMatchObject({
      code: 'unauthenticated',
      provider: 'vercel',
    })
  })

  it('two executors of one conversation share files, two conversations do not (141)', async () => {
    const first = getSandboxExecutor({ kind: 'local', directory, conversationId: 'a' })
    const again = getSandboxExecutor({ kind: 'local', directory, conversationId: 'a' })
    const other = getSandboxExecutor({ kind: 'local', directory, conversationId: 'b' })
    const nobody = getSandboxExecutor({ kind: 'local', directory })
    await first.writeFile('x', 'from a')
    expect(await again.readFile('x')).toBe('from a')
    expect(await other.readFile('x')).toBeNull()
    expect(await nobody.readFile('x')).toBeNull()
  })
})
