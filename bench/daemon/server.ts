/**
 * The daemon as a user runs it: a separate process with SQLite and isolated sandboxes, reached over HTTP on loopback.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxClient, type Session } from '@sandkasten/sdk/client'
import { spawnDaemon } from '../../packages/daemon/src/testing/spawn-daemon.ts'
import { assertHardened, COMMAND } from '../engine/subjects/subject.ts'
import type { Workplace } from '../engine/workplace.ts'
import { timed } from '../measure.ts'
import { assertGoingOn } from '../stop.ts'

export const POOL = 24

export interface Server {
  readonly url: string
  readonly key: string
  readonly fronts: Readonly<Record<string, string>>
  readonly client: SandboxClient
  /** A session that is created on demand, because the pool has none of its size. */
  create(): Promise<Session>
  createPooled(): Promise<Session>
  run(session: Session): Promise<void>
  destroyAll(sessions: readonly Session[]): Promise<void>
  poolFilled(): Promise<void>
  memory(): number
  /** The same, after garbage collection. */
  memoryHeld(): Promise<number>
}

export async function openServer(place: Workplace): Promise<Server> {
  const key = `sk-bench-${randomBytes(16).toString('hex')}`
  const daemon = await spawnDaemon({
    listen: '127.0.0.1:0',
    preview_listen: 'off',
    data_dir: join(place.folder, 'daemon'),
    engine_dir: join(place.folder, 'daemon', 'engine'),
    api_key: key,
    isolator: 'oci',
    // The same setting as the engine beside it, so that both create the same sandbox.
    defaults: { disk_limit_mb: 0 },
    log_level: 'error',
    pool: [{ size: POOL }, { size: 6, account: 'user' }],
    fronts: { e2b: { listen: '127.0.0.1:0' } },
  })
  const client = new SandboxClient({ url: daemon.url, apiKey: key })
  place.cleanup.add('the daemon', async () => {
    try {
      for (const { id } of await client.listSessions({ status: 'running' }))
        await client.session(id).destroy()
    } finally {
      await daemon.end('SIGTERM')
    }
  })
  const server: Server = {
    url: daemon.url,
    key,
    fronts: daemon.fronts,
    client,
    create: () => made({ limits: { memoryMb: 500 } }),
    createPooled: () => made({}),
    async run(session) {
      const [cmd, ...args] = COMMAND
      const { exitCode, stderr } = await session.run(cmd, { args })
      if (exitCode !== 0) throw new Error(`exit code ${exitCode}: ${stderr}`)
    },
    async destroyAll(sessions) {
      await Promise.all(sessions.map((session) => session.destroy()))
    },
    async poolFilled() {
      for (;;) {
        assertGoingOn()
        const text = await (
          await fetch(`${daemon.url}/metrics`, { headers: { authorization: `Bearer ${key}` } })
        ).text()
        const ready = [...text.matchAll(/^sandkasten_pool_ready\{[^}]*\} (\d+)/gm)]
        if (ready.reduce((sum, [, count]) => sum + Number(count), 0) >= POOL + 6) return
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    },
    async memoryHeld() {
      daemon.process.kill('SIGUSR2')
      await new Promise((resolve) => setTimeout(resolve, 200))
      return server.memory()
    },
    memory: () =>
      1024 *
      Number(
        /^Private_Dirty:\s+(\d+)/m.exec(
          readFileSync(`/proc/${daemon.process.pid}/smaps_rollup`, 'utf8'),
        )?.[1],
      ),
  }
  async function made(options: Parameters<SandboxClient['createSession']>[0]): Promise<Session> {
    assertGoingOn()
    return client.createSession(options)
  }
  const first = await server.create()
  const { stdout } = await first.run('cat', { args: ['/proc/self/status'] })
  assertHardened('daemon', stdout)
  await first.destroy()
  return server
}

export async function coldMs(
  server: Server,
  create: () => Promise<Session>,
): Promise<{ ms: number; session: Session }> {
  let session: Session | undefined
  const ms = await timed(async () => {
    session = await create()
    await server.run(session)
  })
  return { ms, session: session! }
}
