import { inspect } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { conformance, memoryCommands, memoryEgress } from '@sandkasten/sdk/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { redactor } from './redact.ts'
import { redacting } from './redacting.ts'
import { type Account, startAccount } from './testing/account.ts'

const secret = 'sk-a-secret-for-tests'
const memory = new MemoryProvider()

conformance({
  title: 'conformance: a view whose errors are redacted',
  provider: () => redacting(memory, redactor([secret])),
  commands: memoryCommands(memory),
  reopen: () => redacting(memory.reopen(), redactor([secret])),
  leftovers: (sandboxId) => memory.running(sandboxId),
  egress: memoryEgress,
  without: { server: 'the memory provider has no network' },
  limits: { lifetimeMs: 150, commandTimeoutMs: 50 },
  runner: { describe, it },
})

describe('errors of a view', () => {
  let account: Account
  beforeAll(async () => {
    account = await startAccount('another key')
  })
  afterAll(() => account.close())

  it('do not have the credential that a server repeats', async () => {
    const original = new DaemonProvider({ url: account.url, apiKey: secret })
    await expect(original.list()).rejects.toThrow(secret)
    const error = await redacting(original, redactor([secret]))
      .list()
      .catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: 'unauthenticated', message: 'not accepted: Bearer [redacted]' })
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain(secret)
  })

  it('of handles, files, processes, iterations and streams are redacted', async () => {
    const fail = async (): Promise<never> => {
      throw new SandboxError('provider_error', `leak ${secret}`)
    }
    class Handle {
      readonly #secret = secret
      readonly files = { read: fail, secret: () => this.#secret.length }
      get broken(): never {
        throw new Error(`leak ${this.#secret}`)
      }
      spawn = async () => new Handle()
      async *output() {
        yield { seq: 1 }
        await fail()
      }
      stdout() {
        return new ReadableStream<Uint8Array>({
          start: (controller) => controller.error(new Error(`leak ${secret}`)),
        })
      }
      throws(): never {
        throw new Error(`leak ${this.#secret}`)
      }
      handles = async () => Object.assign([new Handle(), new Error(`leak ${secret}`)], { nextCursor: 'next' })
      isOwn = (other: unknown) => other instanceof Handle && #secret in other
    }
    const handle = redacting(new Handle(), redactor([secret]))
    const leak = expect.objectContaining({ message: 'leak [redacted]' })
    const process = await handle.spawn()
    const page = await handle.handles()
    await expect(handle.files.read()).rejects.toEqual(leak)
    await expect(process.files.read()).rejects.toEqual(leak)
    await expect((page[0] as Handle).files.read()).rejects.toEqual(leak)
    expect(page[1]).toEqual(leak)
    expect(page.nextCursor).toBe('next')
    expect(() => handle.throws()).toThrow(leak)
    expect(() => handle.broken).toThrow(leak)
    await expect(
      (async () => {
        for await (const { seq } of process.output()) expect(seq).toBe(1)
      })(),
    ).rejects.toEqual(leak)
    await expect(handle.stdout().getReader().read()).rejects.toEqual(leak)
    expect(handle.files.secret()).toBe(secret.length)
    expect(handle).toBeInstanceOf(Handle)
    expect(handle.isOwn(process)).toBe(true)
    expect(handle.files).toBe(handle.files)
    expect(handle.spawn).toBe(handle.spawn)
  })

  it('of streams leaves parts of a pool intact, which cannot be handed over', async () => {
    const pool = Buffer.from('first second').subarray(0)
    const parts = [pool.subarray(0, 6), pool.subarray(6)]
    const source = {
      read: () =>
        new ReadableStream<Uint8Array>({
          pull: (to) => (parts[0] ? to.enqueue(parts.shift()!) : to.close()),
        }),
    }
    let text = ''
    for await (const chunk of redacting(source, redactor([secret])).read())
      text += Buffer.from(chunk).toString()
    expect(text).toBe('first second')
    expect(pool.toString()).toBe('first second')
  })
})
