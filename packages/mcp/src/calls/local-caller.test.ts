import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { handleSource, type SandboxSource } from '../sources/index.ts'
import type { ToolResult } from '../tools/index.ts'
import { localCaller, type Seen, withNews } from './index.ts'

const options = { signal: new AbortController().signal, onProgress: () => {} }
const textOf = ({ content }: ToolResult) =>
  content.map((part) => ('text' in part ? part.text : '')).join('\n')

describe('tools on a handle', () => {
  let provider: MemoryProvider
  let handle: SandboxHandle
  beforeEach(async () => {
    provider = new MemoryProvider({ seed: 'mem' })
    provider.command('sh', async ({ stdout }) => {
      await stdout.write('ran')
      return 3
    })
    handle = await provider.create()
  })
  afterEach(() => vi.useRealTimers())

  it('an exit code is a result, and wrong inputs are told to the model', async () => {
    const caller = localCaller(handleSource(handle))
    const ran = await caller.call('run_command', { cmd: 'x' }, options)
    expect(ran.result).toMatchObject({ facts: { exitCode: 3 }, content: [{ text: 'exit=3\nran' }] })
    expect(ran.result.isError).toBeUndefined()
    for (const [name, input] of [
      ['run_command', {}],
      ['run_command', { cmd: 7 }],
      ['run_command', { cmd: 'x', timeoutMs: 1e9 }],
      ['read_file', { path: 'x'.repeat(10_000) }],
      ['get_url', { port: 0 }],
      ['nothing', {}],
    ] as const)
      expect((await caller.call(name, input, options)).result, name).toMatchObject({ isError: true })
  })

  it('a stopped sandbox is started by the next call, and the agent is told once', async () => {
    const caller = localCaller(handleSource(handle))
    const seen: Seen = {}
    const call = async () =>
      textOf(withNews(await caller.call('write_file', { path: 'a', content: 'b' }, options), seen))
    expect(await call()).toBe('Wrote 1 bytes to a.')
    await handle.stop()
    expect(await call()).toMatch(/^Note: The sandbox was stopped and started again .*\nWrote 1 bytes to a\.$/)
    expect(await call()).toBe('Wrote 1 bytes to a.')
  })

  it('a sandbox that was created again is told as that', async () => {
    const reopen = async () => provider.create()
    const caller = localCaller(handleSource(handle, { reopen }))
    const seen: Seen = {}
    await caller.call('list_files', {}, options).then((called) => withNews(called, seen))
    await provider.destroy(handle.sandboxId)
    const called = await caller.call('write_file', { path: 'a', content: 'b' }, options)
    expect(textOf(withNews(called, seen))).toMatch(/^Note: The sandbox had ended and was created again/)
  })

  it('an error names what failed, what to do, and the state of the sandbox', async () => {
    const caller = localCaller(handleSource(handle))
    const { result } = await caller.call('read_file', { path: 'missing' }, options)
    expect(result.isError).toBe(true)
    expect(textOf(result)).toMatch(
      /^Error: .*missing.*List the folder with list_files\.\nThe sandbox “.*” is running\.$/s,
    )
  })

  it('work that has begun is not repeated', async () => {
    let begun = 0
    const { runCommand, spawn } = handle
    void runCommand
    const failing = new Proxy(handle, {
      get: (target, name) =>
        name === 'spawn'
          ? async (...args: Parameters<typeof spawn>) => {
              begun += 1
              const process = await target.spawn(...args)
              return new Proxy(process, {
                get: (inner, key) =>
                  key === 'output'
                    ? () => ({
                        [Symbol.asyncIterator]: () => ({
                          next: () => Promise.reject(new SandboxError('interrupted', 'It was replaced.')),
                        }),
                      })
                    : Reflect.get(inner, key, inner),
              })
            }
          : Reflect.get(target, name, target),
    })
    const caller = localCaller(handleSource(failing))
    const { result } = await caller.call('run_command', { cmd: 'x' }, options)
    expect(textOf(result)).toContain('The command may have done part of its work.')
    expect(begun).toBe(1)
  })

  it('an error names the state after the stop, not during it', async () => {
    const states = ['running', 'running', 'stopped'] as const
    let asked = 0
    const stopping: SandboxSource = {
      use: () => Promise.reject(new SandboxError('not_running', 'The sandbox has ended.')),
      state: async () => ({ name: 'web', provider: 'memory', status: states[asked++] ?? 'stopped' }),
      snapshot: () => new Promise(() => {}),
      [Symbol.asyncDispose]: async () => {},
    }
    const { result } = await localCaller(stopping).call('run_command', { cmd: 'x' }, options)
    expect(textOf(result)).toMatch(/has ended\. .*\nThe sandbox “web” is stopped\.$/)
    expect(asked).toBe(3)
  })

  it('a call ends at its deadline, also if the provider never answers', async () => {
    vi.useFakeTimers()
    const hanging: SandboxSource = {
      use: () => new Promise(() => {}),
      state: () => new Promise(() => {}),
      snapshot: () => new Promise(() => {}),
      [Symbol.asyncDispose]: async () => {},
    }
    const calling = localCaller(hanging).call('run_command', { cmd: 'x' }, options)
    await vi.advanceTimersByTimeAsync(310_000)
    expect(textOf((await calling).result)).toMatch(
      /^Error: run_command could not begin within 300 seconds\. .*\nThe state of the sandbox is unknown\.$/,
    )
  })
})
