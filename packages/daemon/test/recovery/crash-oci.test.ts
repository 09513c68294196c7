import { readdirSync, readFileSync } from 'node:fs'
import { SandboxClient } from '@sandkasten/sdk/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Sandbox } from '../../src/sessions/context.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'

const missing = await isolationMissing()

/** The host's pid of PID 1 in the sandbox where a program with this argument runs. */
function initOf(argument: string): number | undefined {
  const status = (pid: string | number) => readFileSync(`/proc/${pid}/status`, 'utf8')
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(argument)) continue
      for (let at = Number(pid); at > 1; at = Number(/^PPid:\s+(\d+)/m.exec(status(at))![1]))
        if (/^NSpid:\s+\d+.*\s1$/m.test(status(at))) return at
    } catch {
      // The process has ended.
    }
  }
  return undefined
}

describe.skipIf(missing)(
  `a sandbox that is killed from outside${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let daemon: TestDaemon
    beforeAll(async () => {
      daemon = await startTestDaemon({ isolator: 'oci', fronts: { daytona: { listen: '127.0.0.1:0' } } })
    })
    afterAll(() => daemon?.stop())

    let marks = 0
    const mark = () => `1234${++marks}.${process.pid}`
    /** Kills the sandbox in which `sleep <mark>` runs, once it does. */
    const kill = async (argument: string) => {
      await expect.poll(() => initOf(argument), { interval: 20 }).toBeDefined()
      process.kill(initOf(argument)!, 'SIGKILL')
    }
    const statusOf = async (id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).body.status

    it.each(['run', 'exec'])('%s: the waiting command gets an accurate error', async (kind) => {
      const id = await daemon.session()
      const argument = mark()
      const body = kind === 'run' ? { cmd: 'sleep', args: [argument] } : { cmd: `sleep ${argument}` }
      const answering = daemon.call('POST', `/v1/sessions/${id}/${kind}`, body)
      await kill(argument)
      const { status, body: problem } = await answering
      expect({ status, code: problem.code, retryable: problem.retryable }).toEqual({
        status: 409,
        code: 'interrupted',
        retryable: false,
      })
      expect(problem.hint).not.toMatch(/nothing is lost/i)
      expect(problem.hint).toMatch(/start/)
      expect(await statusOf(id)).toBe('crashed')
      // The disk remains, and the session can be started again.
      expect((await daemon.call('POST', `/v1/sessions/${id}/start`)).status).toBe(200)
      expect((await daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'true' })).body.exit_code).toBe(0)
    })

    it('a command with an id becomes lost', async () => {
      const id = await daemon.session()
      const argument = mark()
      const run = { cmd: 'sleep', args: [argument], exec_id: 'long' }
      const answering = daemon.call('POST', `/v1/sessions/${id}/run`, run)
      await kill(argument)
      expect((await answering).body).toMatchObject({ code: 'interrupted', retryable: false })
    })

    it('of an idle session is reported at once by the API, the SDK and a front', async () => {
      const authorization = `Bearer ${daemon.key}`
      const front = async (method: string, path: string) => {
        const answer = await fetch(`${daemon.daemon.fronts.daytona}/api/sandbox${path}`, {
          method,
          headers: { authorization, 'content-type': 'application/json' },
          body: method === 'POST' ? '{}' : undefined,
        })
        return (await answer.json()) as { id: string; state: string }
      }
      const { id } = await front('POST', '')
      const argument = mark()
      const run = { cmd: 'sleep', args: [argument], exec_id: 'quiet', detach: true }
      await daemon.call('POST', `/v1/sessions/${id}/run`, run)
      // A restarted daemon notices the end of a recovered sandbox just as fast.
      await daemon.restart()
      await kill(argument)
      const killedAt = performance.now()
      await expect.poll(() => statusOf(id), { interval: 20 }).toBe('crashed')
      expect(performance.now() - killedAt).toBeLessThan(2_000)
      const client = new SandboxClient({ baseUrl: daemon.daemon.url, apiKey: daemon.key })
      expect((await client.session(id).info()).status).toBe('crashed')
      expect((await front('GET', `/${id}`)).state).toBe('error')
      await daemon.context.events.flush()
      const { body } = await daemon.call('GET', `/v1/events?after=0&limit=100&session_id=${id}`)
      expect(body.events.map(({ type }: { type: string }) => type)).toContain('session.crashed')
    })

    it('is reported by the engine as an end, not as a lost connection', async () => {
      const { provider } = daemon.context
      const sandbox = (await provider.create()) as Sandbox
      try {
        const argument = mark()
        const running = sandbox
          .runCommand({ cmd: 'sleep', args: [argument] })
          .catch((error: unknown) => error)
        await kill(argument)
        expect(await running).toMatchObject({ code: 'not_running', retryable: false })
        expect(await sandbox.status()).toBe('stopped')
      } finally {
        await sandbox.destroy()
      }
    })
  },
)
