import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon } from '../src/testing/daemon.ts'
import { isolationMissing } from '../src/testing/isolator.ts'
import { spawnDaemon } from '../src/testing/spawn-daemon.ts'

/** How often the daemon is killed; `SANDKASTEN_KILLS=300` for a long run. */
const kills = Number(process.env.SANDKASTEN_KILLS ?? 3)
const key = 'sk-test-0123456789abcdef'
const noIsolation = await isolationMissing()

/** What a client was told, and must find again. */
interface Told {
  sessions: Map<string, string>
  made: number
  /** By session: the commands whose results came back, and all that were sent. */
  done: Map<string, Set<string>>
  sent: Map<string, Set<string>>
}

describe('a daemon that is killed at any instant under load', () => {
  let folder: string
  let config: Record<string, unknown>
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sk-kill-'))
    const isolator = noIsolation ? 'process' : 'oci'
    config = { listen: '127.0.0.1:0', data_dir: folder, isolator, api_key: key, log_level: 'silent' }
  })
  // Whatever happened, no sandbox stays.
  afterAll(async () => {
    await (await startTestDaemon(config)).stop()
    await rm(folder, { recursive: true, force: true })
  })

  it(`loses nothing that it acknowledged and leaves nothing that it did not, ${kills} times`, async () => {
    const told: Told = { sessions: new Map(), made: 0, done: new Map(), sent: new Map() }
    let names = 0
    for (let round = 0; round < kills; round += 1) {
      const daemon = await spawnDaemon(config)
      try {
        await verify(daemon.url, told)
        const working = Promise.all(Array.from({ length: 4 }, () => work(daemon.url, told, () => names++)))
        // Any instant is a good one; that something happens before it is all that is waited for.
        const target = told.made + 1 + Math.floor(Math.random() * 3)
        while (told.made < target) await Promise.race([pause(Math.random() * 20), working])
        await pause(Math.random() * 100)
        await daemon.end('SIGKILL')
        await working
      } finally {
        await daemon.end('SIGKILL')
      }
    }
    const last = await startTestDaemon(config)
    try {
      await verify(last.daemon.url, told)
      expect(told.made).toBeGreaterThanOrEqual(kills)
      const { provider, store, instanceId } = last.daemon.sessions.context
      const live = await store.sessions.live(instanceId)
      const sandboxes = await provider.list()
      expect(sandboxes.map(({ sandboxId }) => sandboxId).sort()).toEqual(
        live.map(({ sandbox_id }) => sandbox_id).sort(),
      )
    } finally {
      await last.stop()
    }
  }, 600_000)
})

/** Makes sessions and runs commands in them until the daemon is gone; notes what was answered. */
async function work(url: string, told: Told, next: () => number): Promise<void> {
  try {
    for (;;) {
      const name = `n${next()}`
      const { id } = await json(url, 'POST', '/v1/sessions', { idempotency_key: name, name })
      told.sessions.set(id, name)
      told.made += 1
      told.done.set(id, new Set())
      told.sent.set(id, new Set())
      for (let n = 0; n < 3; n += 1) {
        told.sent.get(id)!.add(`e${n}`)
        const body = { cmd: `echo line-${n} >> log; sleep 0.0${n}; echo said-${n}`, exec_id: `e${n}` }
        const result = await json(url, 'POST', `/v1/sessions/${id}/exec`, body)
        expect(result).toMatchObject({ exit_code: 0, output: `said-${n}\n` })
        told.done.get(id)!.add(`e${n}`)
      }
      if (told.sessions.size > 6) await forget(url, told)
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
  }
}

/** Ends the oldest, so that the number does not grow. What was asked for and not answered may be either. */
async function forget(url: string, told: Told): Promise<void> {
  const [oldest] = told.sessions.keys()
  told.sessions.delete(oldest!)
  await json(url, 'DELETE', `/v1/sessions/${oldest}`)
}

async function verify(url: string, told: Told): Promise<void> {
  const { sessions } = await json(
    url,
    'GET',
    '/v1/sessions?status=creating,running,paused,stopped,crashed&limit=1000',
  )
  const found = new Map<string, { status: string }>(
    sessions.map((session: { id: string }) => [session.id, session]),
  )
  for (const [id, name] of told.sessions) {
    expect(found.get(id), `session ${id} (${name})`).toMatchObject({
      status: 'running',
      name,
      incarnation: 1,
    })
    for (const execId of told.done.get(id)!) {
      const exec = await json(url, 'GET', `/v1/sessions/${id}/execs/${execId}`)
      expect(exec).toMatchObject({
        status: 'done',
        result: { exit_code: 0, output: `said-${execId.slice(1)}\n` },
      })
    }
    const sent = [...told.sent.get(id)!]
    // A request that was cut off is repeated, and has run once, however it was cut.
    for (const execId of sent) {
      const n = execId.slice(1)
      const body = { cmd: `echo line-${n} >> log; sleep 0.0${n}; echo said-${n}`, exec_id: execId }
      const again = await json(url, 'POST', `/v1/sessions/${id}/exec`, body)
      if (again.code === 'interrupted' && noIsolation) continue
      expect(again, `${id} ${execId}`).toMatchObject({ exit_code: 0, output: `said-${n}\n` })
      told.done.get(id)!.add(execId)
    }
    if (sent.length === 0 || noIsolation) continue
    const { stdout } = await json(url, 'POST', `/v1/sessions/${id}/run`, { cmd: 'cat', args: ['log'] })
    expect(stdout.split('\n').filter(Boolean).sort()).toEqual(
      sent.map((execId) => `line-${execId.slice(1)}`).sort(),
    )
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
async function json(url: string, method: string, where: string, body?: unknown): Promise<any> {
  const response = await fetch(`${url}${where}`, {
    method,
    headers: { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return response.json()
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
