import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { LocalProvider } from '../providers/local/index.ts'
import { VercelSandboxExecutor } from './vercel-executor.ts'

/**
 * Tests the executor over a real local provider: processes really run. The connection to Vercel is tested with its
 * provider.
 */
const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-vercel-'))
afterAll(() => rm(root, { recursive: true, force: true }))
const provider = new LocalProvider({ root, acceptNoIsolation: true })

describe('VercelSandboxExecutor', () => {
  describe('execute', () => {
    it('should execute Python code', async () => {
      const executor = new VercelSandboxExecutor({ provider })
      expect(await executor.execute('python3', ['-c', 'print(6 * 7)'])).toMatchObject({
        exitCode: 0,
        stdout: '42\n',
      })
      await executor.cleanup()
    })

    it('should return command output', async () => {
      const executor = new VercelSandboxExecutor({ provider })
      expect(await executor.execute('sh', ['-c', 'echo out; echo err >&2; exit 7'])).toMatchObject({
        stdout: 'out\n',
        stderr: 'err\n',
        exitCode: 7,
      })
      await executor.cleanup()
    })

    it('concurrent calls share one sandbox (65)', async () => {
      const executor = new VercelSandboxExecutor({ provider })
      const results = await Promise.all(Array.from({ length: 5 }, () => executor.execute('pwd')))
      expect(new Set(results.map((result) => result.stdout)).size).toBe(1)
      expect(await provider.list()).toHaveLength(1)
      await executor.cleanup()
    })

    it('requests Python and five minutes if the provider supports these options', async () => {
      const asked: object[] = []
      const recording = {
        name: 'vercel',
        createOptions: new Set(['runtime', 'lifetimeMs'] as const),
        getOrCreate: async ({ onResume: _, ...options }: { onResume?: unknown }) =>
          Promise.reject(asked.push(options)),
        list: async () => [],
        destroy: async () => false,
      }
      await new VercelSandboxExecutor({ provider: recording, conversationId: 'c' })
        .execute('true')
        .catch(() => {})
      expect(asked).toEqual([{ runtime: 'python3.13', lifetimeMs: 300_000, name: 'executor-c' }])
    })
  })

  describe('writeFile / readFile', () => {
    it('should write and read files in sandbox', async () => {
      const executor = new VercelSandboxExecutor({ provider })
      await executor.writeFile('a/b.txt', 'text')
      expect(await executor.readFile('a/b.txt')).toBe('text')
      expect(await executor.readFile('a/c.txt')).toBeNull()
      expect(await executor.listFiles('a')).toEqual(['b.txt'])
      await executor.cleanup()
    })
  })

  describe('cleanup', () => {
    it('should stop the sandbox', async () => {
      const executor = new VercelSandboxExecutor({ provider })
      await executor.writeFile('x', '')
      await executor.cleanup()
      expect(await provider.list()).toEqual([])
      expect(await executor.listFiles()).toEqual([])
      await executor.cleanup()
    })
  })
})
