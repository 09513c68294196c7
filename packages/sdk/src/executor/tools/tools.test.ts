import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MemoryProvider } from '../../providers/memory/index.ts'
import {
  LocalSandboxExecutor,
  ProviderSandboxExecutor,
  type SandboxExecutor,
  sandboxTools,
} from '../index.ts'

type Call = (name: string, input?: unknown, options?: { signal?: AbortSignal }) => Promise<string>

const callerOf = (executor: SandboxExecutor, options?: Parameters<typeof sandboxTools>[1]): Call => {
  const tools = sandboxTools(executor, options)
  return (name, input, call) => tools.find((tool) => tool.name === name)!.execute(input, call)
}

describe('sandboxTools', () => {
  let directory: string
  let executor: LocalSandboxExecutor
  let call: Call
  beforeEach(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'sandkasten-tools-'))
    executor = new LocalSandboxExecutor({ directory, allowedCommands: 'any' })
    call = callerOf(executor)
  })
  afterEach(async () => {
    await executor.cleanup()
    await rm(directory, { recursive: true, force: true })
  })

  it('are four tools with JSON schemas', () => {
    const tools = sandboxTools(executor)
    expect(tools.map(({ name, inputSchema }) => [name, inputSchema.required])).toEqual([
      ['exec', ['cmd']],
      ['read_file', ['path']],
      ['write_file', ['path', 'content']],
      ['list_files', []],
    ])
    for (const { inputSchema, description } of tools) {
      expect(description).toMatch(/^[A-Z].*\.$/)
      expect(inputSchema).toMatchObject({ type: 'object', additionalProperties: true })
      expect(JSON.parse(JSON.stringify(inputSchema))).toEqual(inputSchema)
    }
  })

  describe('exec', () => {
    it('runs a line in a shell, and shows exit code and both streams', async () => {
      expect(
        await call('exec', { cmd: 'for i in {1..3}; do echo $i; done | tac; echo no >&2; exit 3' }),
      ).toBe('exit=3\n--- stdout ---\n3\n2\n1\n\n--- stderr ---\nno\n')
      expect(await call('exec', { cmd: 'true', timeoutMs: null, why: 'to test' })).toBe('exit=0')
    })

    it('says that a line was killed, and how to go on', async () => {
      const text = await call('exec', { cmd: 'echo begun; sleep 1000', timeoutMs: 300 })
      expect(text).toMatch(
        /^exit=137\n\(killed after 300 ms; pass a larger timeoutMs.*\)\n--- stdout ---\nbegun/,
      )
    })

    it('bounds the output', async () => {
      const small = callerOf(executor, { maxResultChars: 1000 })
      const text = await small('exec', { cmd: 'yes | head -c 1000000; yes | head -c 1000000 >&2' })
      expect(text.length).toBeLessThan(1400)
      expect(text).toContain('output shortened')
    })

    it('ends with the caller’s signal', async () => {
      const controller = new AbortController()
      const running = call('exec', { cmd: 'sleep 1000' }, { signal: controller.signal })
      controller.abort()
      await expect(running).rejects.toMatchObject({ code: 'aborted' })
    })

    it('works with an allow-list: one program, and an error that names the others', async () => {
      const strict = callerOf(new LocalSandboxExecutor({ directory, conversationId: 'strict' }))
      expect(await strict('exec', { cmd: "printf '%s' 'a b'" })).toBe('exit=0\n--- stdout ---\na b')
      expect(await strict('exec', { cmd: 'ls | wc -l' })).toMatch(/^Error: .*“\|”.* one program at a time/)
      expect(await strict('exec', { cmd: 'curl x' })).toMatch(/^Error: .*“curl” is not allowed.* python3/s)
      await new LocalSandboxExecutor({ directory, conversationId: 'strict' }).cleanup()
    })
  })

  describe('read_file and write_file', () => {
    it('write and read', async () => {
      expect(await call('write_file', { path: 'a/b.txt', content: 'grüße\n' })).toBe(
        'Wrote 8 bytes to a/b.txt.',
      )
      expect(await call('read_file', { path: 'a/b.txt' })).toBe('grüße')
      await call('write_file', { path: 'empty', content: '' })
      expect(await call('read_file', { path: 'empty' })).toBe('(empty is empty)')
    })

    it('read a long file in parts', async () => {
      const lines = Array.from({ length: 1000 }, (_, at) => `line ${at + 1}`)
      await call('write_file', { path: 'long', content: `${lines.join('\n')}\n` })
      const small = callerOf(executor, { maxResultChars: 2000 })
      const seen: string[] = []
      let startLine: number | undefined = 1
      while (startLine !== undefined) {
        const text: string = await small('read_file', { path: 'long', startLine })
        expect(text.length).toBeLessThan(2100)
        seen.push(...text.split('\n').filter((line) => line.startsWith('line ')))
        const next: string | undefined = /pass startLine: (\d+) /.exec(text)?.[1]
        startLine = next === undefined ? undefined : Number(next)
      }
      expect(seen).toEqual(lines)
      expect(await call('read_file', { path: 'long', startLine: 2, lineCount: 2 })).toBe(
        'line 2\nline 3\n[lines 2 to 3 of 1000; pass startLine: 4 to go on]',
      )
      expect(await call('read_file', { path: 'long', startLine: 2000 })).toBe(
        'Error: long has only 1000 lines.',
      )
    })

    it('bound a line, and refuse what is not text or too large', async () => {
      const { workdir } = await executor.sandbox()
      await writeFile(path.join(workdir, 'line'), `x${'😀'.repeat(100_000)}`)
      const text = await call('read_file', { path: 'line' })
      expect(text.length).toBeLessThan(32_100)
      expect(text).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/)
      await writeFile(path.join(workdir, 'binary'), Buffer.from([1, 0, 2]))
      expect(await call('read_file', { path: 'binary' })).toMatch(/^Error: binary is not a text file/)
      await writeFile(path.join(workdir, 'huge'), Buffer.alloc(17 * 1024 * 1024, 'x'))
      expect(await call('read_file', { path: 'huge' })).toMatch(/^Error: .* larger than .* head -c/)
    })
  })

  it('list_files shows names, one to a line, and bounds them', async () => {
    expect(await call('list_files')).toBe('Error: The input must be an object with path (optional).')
    expect(await call('list_files', {})).toBe('(. is empty)')
    await call('exec', { cmd: `touch {1..500}; touch $'a\\nb'` })
    expect(await call('list_files', {})).toContain('\n"a\\nb"')
    const text = await callerOf(executor, { maxResultChars: 100 })('list_files', { path: '.' })
    expect(text).toMatch(/^1\n10\n100\n.*\[\d+ more names\]$/s)
    expect(text.length).toBeLessThan(130)
  })

  it.each([
    ['read_file', { path: 'missing' }, /missing does not exist\. List the folder with list_files/],
    ['read_file', { path: '../x' }, /Use a path below the working directory/],
    ['read_file', { path: '.' }, /List it with list_files/],
    ['list_files', { path: 'missing' }, /^Error: /],
    ['write_file', { path: '/etc/x', content: '' }, /Use a path below the working directory/],
    ['write_file', { path: 'x' }, /^Error: The input “content” is missing\. The inputs are path, content\.$/],
    ['write_file', { path: 1, content: '' }, /^Error: The input “path” must be a string\.$/],
    ['exec', { command: 'ls' }, /^Error: The input “cmd” is missing/],
    ['exec', { cmd: 'ls', timeoutMs: 1e9 }, /^Error: The input “timeoutMs” must be at most 600000\.$/],
    ['exec', { cmd: 'ls', timeoutMs: '5' }, /must be a whole number/],
    ['exec', 'ls', /^Error: The input must be an object with cmd, timeoutMs \(optional\)\.$/],
    ['exec', { cmd: 'a\0b' }, /^Error: /],
  ])('an error of the model is a text that helps it: %s %j', async (name, input, text) => {
    expect(await call(name, input)).toMatch(text)
  })

  it('check their own options', () => {
    for (const wrong of [{ timeoutMs: 0 }, { maxResultChars: -1 }, { timeoutMs: 2000, maxTimeoutMs: 1000 }])
      expect(() => sandboxTools(executor, wrong)).toThrow(
        expect.objectContaining({ code: 'invalid_argument' }),
      )
  })

  describe('on a provider', () => {
    const provider = new MemoryProvider({ seed: 'mem' })
    provider.command('sh', async ({ stdout }) => {
      await stdout.write('ran')
      return 0
    })
    const remote = new ProviderSandboxExecutor({ provider, keepAlive: false })
    const onProvider = callerOf(remote)

    it('errors of the provider are thrown, not shown to the model', async () => {
      for (const error of ['unauthenticated', 'unavailable', 'quota_exceeded', 'forbidden'] as const) {
        provider.fault({ on: 'create', error })
        await expect(onProvider('list_files', {})).rejects.toMatchObject({ code: error })
      }
    })

    it('the model learns once that the sandbox was opened again, and what is lost', async () => {
      await onProvider('write_file', { path: 'a', content: 'x' })
      await (await provider.get('mem-1')).stop()
      expect(await onProvider('read_file', { path: 'a' })).toMatch(/^Note: .* files are as they were\.\nx$/)
      expect(await onProvider('read_file', { path: 'a' })).toBe('x')
      await provider.destroy('mem-1')
      expect(await onProvider('read_file', { path: 'a' })).toMatch(
        /^Note: .* files .* are lost.*\nError: .*a does/,
      )
      provider.fault({ on: 'output', error: 'not_running' })
      expect(await onProvider('exec', { cmd: 'x' })).toMatch(/^Error: The sandbox stopped while.*next call/)
    })
  })
})
