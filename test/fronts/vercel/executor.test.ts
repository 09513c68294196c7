import { AsyncLocalStorage } from 'node:async_hooks'
import { createRequire } from 'node:module'
import {
  type Opening,
  type SandboxExecutor,
  VercelSandboxExecutor,
  type VercelSandboxExecutorOptions,
} from '@sandkasten/sdk/executor'
import { VercelProvider, vercelRequestToken } from '@sandkasten/sdk/vercel'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()
const live = process.env.VERCEL_OIDC_TOKEN
const noToken = 'VERCEL_OIDC_TOKEN is not set: run `vercel env pull`'

/** The executor's suite, on any account. */
function suite(make: (options?: VercelSandboxExecutorOptions) => VercelSandboxExecutor): void {
  describe('execute', () => {
    it('should execute Python code', async () => {
      const executor = make()
      expect(await executor.execute('python3', ['-c', 'print(6 * 7)'])).toMatchObject({
        exitCode: 0,
        stdout: '42\n',
      })
      await executor.cleanup()
    })

    it('should return command output', async () => {
      const executor = make()
      expect(await executor.executeLine('x=(out); echo $x; echo err >&2; exit 7')).toMatchObject({
        stdout: 'out\n',
        stderr: 'err\n',
        exitCode: 7,
      })
      await executor.cleanup()
    })
  })

  describe('writeFile / readFile', () => {
    it('should write and read files in sandbox', async () => {
      const executor = make()
      await executor.writeFile('a/b.txt', 'text')
      expect(await executor.readFile('a/b.txt')).toBe('text')
      expect(await executor.readFile('a/c.txt')).toBeNull()
      expect(await executor.listFiles('a')).toEqual(['b.txt'])
      await executor.cleanup()
    })
  })

  describe('cleanup', () => {
    it('should stop the sandbox', async () => {
      const executor = make()
      await executor.writeFile('x', '')
      const sandbox = await executor.sandbox()
      await executor.cleanup()
      expect(await sandbox.destroy()).toBe(false)
      await executor.cleanup()
    })
  })
}

describe('VercelSandboxExecutor on Vercel', () => {
  if (live === undefined) it('the suite', ({ skip }) => skip(noToken))
  else suite((options) => new VercelSandboxExecutor({ timeoutMs: 60_000, ...options }))
})

describe.skipIf(missing)(
  `VercelSandboxExecutor on the front${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let daemon: TestDaemon
    beforeAll(async () => {
      daemon = await startTestDaemon({
        isolator: 'oci',
        fronts: { vercel: { listen: '127.0.0.1:0' } },
        reaper_interval_seconds: 0.25,
      })
    })
    afterAll(() => daemon?.stop())
    afterEach(async () => {
      const sessions = await daemon.call('GET', '/v1/sessions?status=running')
      expect(sessions.body.sessions, 'sessions that a test has left').toEqual([])
    })

    const access = () => ({ token: daemon.key, teamId: 'team', projectId: 'project' })
    const vercel = () => ({ ...access(), baseUrl: daemon.daemon.fronts.vercel! })
    const make = (options: VercelSandboxExecutorOptions = {}) =>
      new VercelSandboxExecutor({ vercel: vercel(), timeoutMs: 60_000, ...options })

    suite(make)

    it('a lifetime that ends between two calls: the next call goes on with the same disk', async () => {
      const openings: Opening[] = []
      const executor = make({
        create: { lifetimeMs: 2000 },
        keepAlive: false,
        onOpen: (opening) => openings.push(opening),
      })
      await executor.writeFile('note', 'kept')
      const first = await executor.sandbox()
      await expect.poll(() => first.status()).toBe('stopped')
      const results = await Promise.all([1, 2, 3].map(() => executor.execute('cat', ['note'])))
      expect(results.map(({ stdout }) => stdout)).toEqual(['kept', 'kept', 'kept'])
      expect(results[0]!.reopened).toMatchObject({ files: 'kept', reason: 'not_running' })
      expect(openings).toHaveLength(2)
      await executor.cleanup()
    })

    it('kept alive, it outlives its lifetime', async () => {
      const openings: Opening[] = []
      const executor = make({
        create: { lifetimeMs: 3000 },
        keepAlive: { leaseMs: 3000, everyMs: 500 },
        onOpen: (opening) => openings.push(opening),
      })
      await executor.writeFile('note', 'kept')
      expect(await executor.execute('sleep', ['5'])).toMatchObject({ exitCode: 0, timedOut: false })
      expect(openings).toHaveLength(1)
      await executor.cleanup()
    })

    it('a sandbox that is gone comes back from the last snapshot', async () => {
      const executor = make()
      await executor.writeFile('note', 'saved')
      await executor.snapshot()
      await executor.writeFile('note', 'later')
      const { sandboxId } = await executor.sandbox()
      await new VercelProvider(vercel()).destroy(sandboxId)
      const result = await executor.execute('cat', ['note'])
      expect(result).toMatchObject({ stdout: 'saved', reopened: { files: 'restored', reason: 'not_found' } })
      await executor.cleanup()
      expect(await new VercelProvider(vercel()).listSnapshots()).toEqual([])
    })

    describe('with the token of each request', () => {
      const contexts = new AsyncLocalStorage<{ headers: Record<string, string> }>()
      const symbol = Symbol.for('@vercel/request-context')
      const globals = globalThis as { [symbol]?: unknown }
      const jwt = (claims: object) =>
        `head.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.signature`
      const tokenOf = (name: string, claims: object = {}) =>
        jwt({ owner_id: 'team', project_id: 'project', exp: 4_000_000_000, jti: name, ...claims })
      /** What Vercel's own runtime does for each request of a function. */
      const inRequest = <T>(token: string | undefined, work: () => Promise<T>) =>
        contexts.run({ headers: token === undefined ? {} : { 'x-vercel-oidc-token': token } }, work)

      const { VERCEL_OIDC_TOKEN: before } = process.env
      let sent: Array<{ token: string; within: string | undefined }> = []
      beforeAll(() => {
        globals[symbol] = { get: () => contexts.getStore() }
        delete process.env.VERCEL_OIDC_TOKEN
      })
      afterAll(() => {
        delete globals[symbol]
        if (before !== undefined) process.env.VERCEL_OIDC_TOKEN = before
      })
      afterEach(() => {
        sent = []
      })

      /** Replaces the vendor's check of the token: notes it, and goes on with the daemon's key. */
      const noted: typeof fetch = async (url, init) => {
        const headers = new Headers(init?.headers)
        const token = headers.get('authorization')!.replace('Bearer ', '')
        sent.push({ token, within: contexts.getStore()?.headers['x-vercel-oidc-token'] })
        headers.set('authorization', `Bearer ${daemon.key}`)
        return fetch(url, { ...init, headers })
      }
      const forRequests = (options: VercelSandboxExecutorOptions = {}) =>
        make({
          vercel: { oidcToken: vercelRequestToken, baseUrl: daemon.daemon.fronts.vercel!, fetch: noted },
          ...options,
        })

      it('concurrent requests of one executor never mix tokens', async () => {
        const executor: SandboxExecutor = forRequests()
        const names = ['a', 'b', 'c', 'd']
        await inRequest(tokenOf('a'), () => executor.writeFile('x', ''))
        await Promise.all(
          names.map((name) =>
            inRequest(tokenOf(name), async () => {
              expect((await executor.executeLine(`sleep 0.2; echo ${name}`)).stdout).toBe(`${name}\n`)
              await executor.writeFile(name, name)
              expect(await executor.readFile(name)).toBe(name)
            }),
          ),
        )
        await inRequest(tokenOf('a'), () => executor.cleanup())
        for (const { token, within } of sent) expect(token).toBe(within)
        for (const name of names)
          expect(sent.filter(({ token }) => token === tokenOf(name)).length).toBeGreaterThan(3)
      })

      it('beats between requests use the token of the newest request', async () => {
        const executor = forRequests({ keepAlive: { everyMs: 100, leaseMs: 60_000 } })
        await inRequest(tokenOf('first'), () => executor.writeFile('x', ''))
        await inRequest(tokenOf('second'), () => executor.readFile('x'))
        sent = []
        await expect.poll(() => sent.length).toBeGreaterThan(3)
        expect(new Set(sent.map(({ token }) => token))).toEqual(new Set([tokenOf('second')]))
        await inRequest(tokenOf('second'), () => executor.cleanup())
      })

      it('a token of another project is refused before anything is sent', async () => {
        const executor = forRequests()
        await inRequest(tokenOf('mine'), () => executor.writeFile('x', ''))
        const other = tokenOf('other', { project_id: 'another' })
        await expect(inRequest(other, () => executor.readFile('x'))).rejects.toMatchObject({
          code: 'forbidden',
        })
        expect(sent.filter(({ token }) => token === other)).toEqual([])
        await inRequest(tokenOf('mine'), () => executor.cleanup())
      })

      it('without a token, or with an expired one, the error says what to do', async () => {
        const executor = forRequests()
        const call = () => executor.listFiles()
        await expect(inRequest(undefined, call)).rejects.toMatchObject({
          code: 'unauthenticated',
          hint: expect.stringContaining('OIDC'),
        })
        await expect(inRequest(tokenOf('old', { exp: 1 }), call)).rejects.toMatchObject({
          code: 'unauthenticated',
          message: expect.stringContaining('expired'),
        })
        expect(sent).toEqual([])
      })

      it('no error contains a token', async () => {
        const refused: typeof fetch = async (_, init) => {
          const authorization = new Headers(init?.headers).get('authorization')
          return Response.json(
            { error: { code: 'forbidden', message: `no ${authorization}` } },
            { status: 403 },
          )
        }
        const executor = make({ vercel: { oidcToken: vercelRequestToken, fetch: refused } })
        const error = await inRequest(tokenOf('secret'), () => executor.listFiles().catch((caught) => caught))
        expect(error).toMatchObject({ code: 'forbidden' })
        const { inspect } = await import('node:util')
        expect(inspect(error, { depth: 10 }) + JSON.stringify(error)).not.toContain(tokenOf('secret'))
      })

      it('is read where the vendor’s own package reads it', async () => {
        const sdk = createRequire(createRequire(import.meta.url).resolve('@vercel/sandbox'))
        const { getVercelOidcTokenSync } = sdk('@vercel/oidc') as { getVercelOidcTokenSync(): string }
        await inRequest(tokenOf('mine'), async () => {
          expect([vercelRequestToken(), getVercelOidcTokenSync()]).toEqual([tokenOf('mine'), tokenOf('mine')])
        })
        expect(vercelRequestToken()).toBeUndefined()
      })

      it('the executor’s defaults use it on Vercel', async () => {
        const executor = new VercelSandboxExecutor()
        await expect(executor.listFiles()).rejects.toMatchObject({ code: 'unauthenticated' })
        await expect(inRequest(tokenOf('old', { exp: 1 }), () => executor.listFiles())).rejects.toMatchObject(
          { message: expect.stringContaining('expired') },
        )
      })

      it('the executor’s defaults work in a request with a valid token', async () => {
        const real = fetch
        const front = daemon.daemon.fronts.vercel!
        const addresses = new Set<string>()
        // Vercel's address leads to the front, and its check of the token is replaced as above.
        vi.stubGlobal('fetch', async (input: string | URL, init?: RequestInit) => {
          const url = String(input)
          if (!url.startsWith('https://vercel.com/api')) return real(input, init)
          addresses.add(new URL(url).origin)
          const headers = new Headers(init?.headers)
          sent.push({ token: headers.get('authorization')!.replace('Bearer ', ''), within: undefined })
          headers.set('authorization', `Bearer ${daemon.key}`)
          return real(url.replace('https://vercel.com/api', front), { ...init, headers })
        })
        try {
          const executor = new VercelSandboxExecutor()
          await inRequest(tokenOf('mine'), async () => {
            await executor.writeFile('a.py', 'print(6 * 7)')
            expect(await executor.execute('python3', ['a.py'])).toMatchObject({ exitCode: 0, stdout: '42\n' })
            const session = await daemon.call('GET', '/v1/sessions?status=running')
            expect(session.body.sessions).toHaveLength(1)
            await executor.cleanup()
          })
        } finally {
          vi.unstubAllGlobals()
        }
        expect([...addresses]).toEqual(['https://vercel.com'])
        expect(new Set(sent.map(({ token }) => token))).toEqual(new Set([tokenOf('mine')]))
      })
    })
  },
)
