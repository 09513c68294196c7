import { describe, expect, it } from 'vitest'
import { SandboxClient } from './client/index.ts'
import type { SandboxError } from './errors.ts'
import { DaemonProvider } from './providers/daemon/index.ts'
import { DaytonaProvider } from './providers/daytona/index.ts'
import { E2BProvider } from './providers/e2b/index.ts'
import { HopxProvider } from './providers/hopx/index.ts'
import { LocalProvider } from './providers/local/index.ts'
import { MemoryProvider } from './providers/memory/index.ts'
import { SpritesProvider } from './providers/sprites/index.ts'
import { SshProvider } from './providers/ssh/index.ts'
import { VercelProvider } from './providers/vercel/index.ts'

type Make = (options: never) => unknown

/** A misspelt address would otherwise send the key to the vendor's own cloud. */
describe('the options of providers and clients', () => {
  it.each<[name: string, make: Make, options: object, hint: string]>([
    ['DaytonaProvider', (o) => new DaytonaProvider(o), { apiKey: 'k', apiurl: 'http://a' }, 'apiUrl'],
    ['E2BProvider', (o) => new E2BProvider(o), { apiKey: 'k', apiurl: 'http://a' }, 'apiUrl'],
    ['HopxProvider', (o) => new HopxProvider(o), { apiKey: 'k', apiurl: 'http://a' }, 'apiUrl'],
    [
      'VercelProvider',
      (o) => new VercelProvider(o),
      { oidcToken: () => 't', baseURI: 'http://a' },
      'baseUrl',
    ],
    ['SpritesProvider', (o) => new SpritesProvider(o), { token: 't', baseURL: 'http://a' }, 'baseUrl'],
    ['SandboxClient', (o) => new DaemonProvider(o), { apiKey: 'k', ulr: 'http://a' }, 'url'],
    ['SandboxClient', (o) => new SandboxClient(o), { apiKey: 'k', baseurl: 'http://a' }, 'baseUrl'],
    ['SshProvider', (o) => new SshProvider(o), { host: 'h', hostkey: 'SHA256:x' }, 'hostKey'],
    ['LocalProvider', (o) => new LocalProvider(o), { inheritenv: ['A'] }, 'inheritEnv'],
    ['MemoryProvider', (o) => new MemoryProvider(o), { capabilites: { shell: false } }, 'capabilities'],
  ])('%s refuses an unknown one', (name, make, options, meant) => {
    expect(() => make(options as never)).toThrow(
      expect.objectContaining({
        code: 'invalid_argument',
        message: expect.stringContaining(name),
        hint: `Did you mean \`${meant}\`?`,
      }),
    )
  })

  it('of calls of the client are checked before the request', async () => {
    // Nothing listens there.
    const session = new SandboxClient({ url: 'http://127.0.0.1:1', apiKey: 'k' }).session('a'.repeat(16))
    for (const call of ['exec', 'run', 'start'] as const)
      await expect(session[call]('ls', { timeout: 5 } as never)).rejects.toMatchObject({
        code: 'invalid_argument',
        hint: 'Did you mean `timeoutMs`?',
      })
    await expect(session.write('a', undefined as never)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('The content of a'),
    })
  })

  it('of snapshot() and fork() are checked, too', async () => {
    const sandbox = await new MemoryProvider().create()
    const hintOf = (call: Promise<unknown>) => call.catch(({ code, hint }: SandboxError) => [code, hint])
    expect(await hintOf(sandbox.snapshot({ nam: 'x' } as never))).toEqual([
      'invalid_argument',
      'Did you mean `name`?',
    ])
    expect(await hintOf(sandbox.fork({ counts: 2 } as never))).toEqual([
      'invalid_argument',
      'Did you mean `count`?',
    ])
    expect(await new MemoryProvider().list()).toEqual([])
  })
})

describe('a command that is a line', () => {
  it('is refused with the way to run a line', async () => {
    const sandbox = await new MemoryProvider().create()
    await expect(sandbox.runCommand('ls -l' as never)).rejects.toMatchObject({
      message: 'runCommand() takes an object of options.',
      hint: expect.stringContaining("cmd: 'sh', args: ['-c', line]"),
    })
    await expect(sandbox.spawn({ cmd: 'ls -l' })).rejects.toMatchObject({
      code: 'command_not_found',
      hints: { cli: expect.stringContaining('sh -c LINE') },
    })
    // With arguments, the space belongs to the name of a program.
    await expect(sandbox.spawn({ cmd: 'my program', args: ['-l'] })).rejects.toMatchObject({
      hint: expect.not.stringContaining('sh'),
    })
  })
})
