import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import type { SandboxError } from '../errors.ts'
import type { CommandContext } from '../providers/memory/index.ts'
import { MemoryProvider } from '../providers/memory/index.ts'

type Write = (context: CommandContext) => Promise<unknown>

async function sandboxWith(run: Write) {
  const provider = new MemoryProvider()
  provider.command('program', run)
  return provider.create()
}

const megabyte = 'x'.repeat(1024 * 1024)
const forever = ({ signal }: CommandContext) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('killed'))))

async function lengthOf(stream: ReadableStream<Uint8Array>): Promise<number> {
  let length = 0
  for await (const chunk of stream) length += chunk.byteLength
  return length
}

describe('The streams of a process', () => {
  it('block the program when one is open, unread and full, and lose nothing', async () => {
    let written = 0
    const sandbox = await sandboxWith(async ({ stdout, stderr }) => {
      for (; written < 20; written += 1) await stderr.write(megabyte)
      await stdout.write('done')
    })
    const process = await sandbox.spawn({ cmd: 'program', outputBufferBytes: 64 * 1024 })
    const [stdout, stderr] = [process.stdout(), process.stderr()]
    const read = lengthOf(stdout)
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(written).toBeGreaterThan(6)
    expect(written).toBeLessThan(11)
    expect(await lengthOf(stderr)).toBe(20 * megabyte.length)
    expect(await read).toBe(4)
  })

  it('continue when the full one is cancelled', async () => {
    const sandbox = await sandboxWith(async ({ stdout, stderr }) => {
      for (let count = 0; count < 20; count += 1) await stderr.write(megabyte)
      await stdout.write('done')
    })
    const process = await sandbox.spawn({ cmd: 'program', outputBufferBytes: 64 * 1024 })
    const [stdout, stderr] = [process.stdout(), process.stderr()]
    const read = lengthOf(stdout)
    await new Promise((resolve) => setTimeout(resolve, 50))
    await stderr.cancel()
    expect(await read).toBe(4)
  })

  /** Writes more to stderr than is kept, then a little to stdout. */
  const loud = () =>
    sandboxWith(async ({ stdout, stderr }) => {
      for (let count = 0; count < 20; count += 1) await stderr.write(megabyte)
      await stdout.write('done')
    })

  it('block the program when one was never opened and is full; opening it later loses nothing', async () => {
    const process = await (await loud()).spawn({ cmd: 'program', outputBufferBytes: 64 * 1024 })
    const read = lengthOf(process.stdout())
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect((await process.status()).running).toBe(true)
    expect(await lengthOf(process.stderr())).toBe(20 * megabyte.length)
    expect(await read).toBe(4)
  })

  it('fail with a hint, and let the program go on, when nothing opens the full one', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const process = await (await loud()).spawn({ cmd: 'program', outputBufferBytes: 64 * 1024 })
      const read = lengthOf(process.stdout()).catch((error: unknown) => error)
      await vi.advanceTimersByTimeAsync(29_000)
      expect((await process.status()).running).toBe(true)
      await vi.advanceTimersByTimeAsync(2000)
      expect(await read).toMatchObject({
        code: 'timeout',
        retryable: false,
        message: expect.stringContaining('stderr'),
        hint: expect.stringContaining('process.stderr().cancel()'),
      })
      expect((await process.wait({ collect: false })).exitCode).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })

  it('do not wait for a cancelled one, whether it was cancelled before or after the other was opened', async () => {
    const sandbox = await loud()
    const spawn = () => sandbox.spawn({ cmd: 'program', outputBufferBytes: 64 * 1024 })
    const [before, after] = [await spawn(), await spawn()]
    await before.stderr().cancel()
    expect(await lengthOf(before.stdout())).toBe(4)
    const read = lengthOf(after.stdout())
    await after.stderr().cancel()
    expect(await read).toBe(4)
  })

  it('of an earlier opening do not wait for a stream that a later one has', async () => {
    const process = await (await loud()).spawn({ cmd: 'program', outputBufferBytes: 64 * 1024 })
    const reads = [process.stdout(), process.stdout(), process.stderr()].map(lengthOf)
    expect(await Promise.all(reads)).toEqual([4, 4, 20 * megabyte.length])
  })

  it('can each be read several times', async () => {
    const sandbox = await sandboxWith(async ({ stdout, stderr }) => {
      await stdout.write('out')
      await stderr.write('error')
    })
    const process = await sandbox.spawn({ cmd: 'program' })
    for (let count = 0; count < 2; count += 1) {
      expect(await lengthOf(process.stdout())).toBe(3)
      expect(await lengthOf(process.stderr())).toBe(5)
    }
  })

  it('keep unread output from the moment that they are opened', async () => {
    const start = Promise.withResolvers<void>()
    const sandbox = await sandboxWith(async ({ stderr }) => {
      await start.promise
      for (let count = 0; count < 4; count += 1) await stderr.write(megabyte)
    })
    const process = await sandbox.spawn({ cmd: 'program', outputBufferBytes: 64 * 1024 })
    const stderr = process.stderr()
    start.resolve()
    // Longer than a program waits for its first reader.
    await new Promise((resolve) => setTimeout(resolve, 250))
    expect((await process.status()).running).toBe(true)
    expect(await lengthOf(stderr)).toBe(4 * megabyte.length)
  })

  it('end with aborted when their own signal fires; the other one continues', async () => {
    const sandbox = await sandboxWith(async (context) => {
      await context.stdout.write('out')
      await forever(context)
    })
    const process = await sandbox.spawn({ cmd: 'program' })
    const controller = new AbortController()
    const stdout = process.stdout().getReader()
    const stderr = lengthOf(process.stderr({ signal: controller.signal }))
    controller.abort()
    await expect(stderr).rejects.toMatchObject({ code: 'aborted' })
    expect(new TextDecoder().decode((await stdout.read()).value)).toBe('out')
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
    await process.kill('SIGKILL')
  })
})

describe('A signal of spawn', () => {
  it('has no listeners left when the end of the process was seen, however it was seen', async () => {
    const sandbox = await sandboxWith(async () => 0)
    const { signal } = new AbortController()
    const spawn = () => sandbox.spawn({ cmd: 'program', signal })
    await (await spawn()).wait()
    await (await spawn()).wait({ collect: false })
    for await (const _ of (await spawn()).output());
    await lengthOf((await spawn()).stdout())
    // The memory provider learns of the end without a call.
    await spawn()
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('has no listener left when the start fails', async () => {
    const sandbox = await sandboxWith(async () => 0)
    const { signal } = new AbortController()
    await expect(sandbox.spawn({ cmd: 'missing', signal })).rejects.toMatchObject({
      code: 'command_not_found',
    })
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

describe('The error of a cancelled command', () => {
  it('has at most 64 KiB of each stream, with their head and tail', async () => {
    const sandbox = await sandboxWith(async (context) => {
      await context.stdout.write(`head${megabyte}tail`)
      await context.stderr.write('é'.repeat(100_000))
      await context.stdout.write('!')
      await forever(context)
    })
    const controller = new AbortController()
    const error = await sandbox
      .runCommand({
        cmd: 'program',
        signal: controller.signal,
        onStdout: (text) => text.endsWith('!') && controller.abort(),
      })
      .catch((thrown: SandboxError) => thrown)
    const { stdout, stderr } = (error as SandboxError).details as Record<string, string>
    expect(stdout).toMatch(/^headx+\n\[… 983[0-9]{3} bytes left out …\]\nx+tail!$/)
    expect(stderr).toMatch(/^é+\n\[… \d+ bytes left out …\]\né+$/)
    for (const text of [stdout, stderr]) expect(Buffer.byteLength(text!)).toBeLessThan(65_600)
  })

  it('is also the error of wait, for its signal and its time limit', async () => {
    const sandbox = await sandboxWith(async (context) => {
      await context.stdout.write('so far')
      await forever(context)
    })
    const process = await sandbox.spawn({ cmd: 'program' })
    const details = { stdout: 'so far', stderr: '' }
    await expect(process.wait({ timeoutMs: 50 })).rejects.toMatchObject({ code: 'timeout', details })
    const signal = AbortSignal.timeout(50)
    await expect(process.wait({ signal })).rejects.toMatchObject({ code: 'aborted', details })
    await process.kill('SIGKILL')
  })
})

describe('output', () => {
  it('takes only its two values', async () => {
    const sandbox = await sandboxWith(async () => 0)
    const call = sandbox.runCommand({ cmd: 'program', output: 'both' as 'merged' })
    await expect(call).rejects.toMatchObject({ code: 'invalid_argument' })
  })
})
