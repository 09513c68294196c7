import { existsSync, readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'
import { spawnDaemon } from '../../src/testing/spawn-daemon.ts'

const kills = Number(process.env.SANDKASTEN_KILLS ?? 8)
const key = 'sk-test-0123456789abcdef'
const missing = await isolationMissing()
const noPostgres = await postgresMissing()

/** What a client knows of a volume. `maybe`: a change got no response. */
type Known = 'there' | 'gone' | 'maybe'

const kinds = [
  ['sqlite', missing],
  ['postgres', missing ?? noPostgres],
] as const
for (const [kind, skipped] of kinds)
  describe.skipIf(skipped)(
    `volumes of a daemon that is killed, on ${kind}${skipped ? ` (skipped: ${skipped})` : ''}`,
    () => {
      let folder: string
      let postgres: TestPostgres | undefined
      let config: Record<string, unknown>
      beforeAll(async () => {
        folder = await mkdtemp(path.join(tmpdir(), 'sk-kill-volumes-'))
        if (kind === 'postgres') postgres = await startPostgres()
        config = {
          listen: '127.0.0.1:0',
          data_dir: folder,
          db_url: postgres?.url,
          isolator: 'oci',
          api_key: key,
          log_level: 'silent',
          defaults: { volume_limit_mb: 8 },
        }
      })
      afterAll(async () => {
        await postgres?.stop()
        if (folder) await rm(folder, { recursive: true, force: true })
      })

      it(
        `are as clients were told, and no hold is left, ${kills} times`,
        async () => {
          const known = new Map<string, Known>()
          let count = 0
          for (let round = 0; round <= kills; round += 1) {
            const daemon = await spawnDaemon(config)
            const ask = asker(daemon.url)
            try {
              await verify(ask, known)
              if (round === kills) return await endWell(ask)
              let answers = 0
              const client = async () => {
                for (;;) {
                  count += 1
                  const name = `v${count}`
                  known.set(name, 'maybe')
                  const made = await ask('POST', '/v1/volumes', { name })
                  known.set(name, made.status === 201 ? 'there' : 'gone')
                  answers += 1
                  const volumes = [{ name, path: '/data' }]
                  const session = await ask('POST', '/v1/sessions', { volumes })
                  answers += 1
                  if (Math.random() < 0.5) await ask('POST', `/v1/sessions/${session.body.id}/stop`)
                  if (Math.random() < 0.3) continue
                  await ask('DELETE', `/v1/sessions/${session.body.id}`)
                  answers += 1
                  known.set(name, 'maybe')
                  const deleted = await ask('DELETE', `/v1/volumes/${name}`)
                  known.set(name, deleted.status === 200 ? 'gone' : 'there')
                  answers += 1
                }
              }
              const working = Promise.allSettled([client(), client(), client()])
              const target = 1 + Math.floor(Math.random() * 12)
              await expect
                .poll(() => answers, { interval: 5, timeout: 30_000 })
                .toBeGreaterThanOrEqual(target)
              await new Promise((resolve) => setTimeout(resolve, Math.random() * 50))
              await daemon.end('SIGKILL')
              await working
            } finally {
              await daemon.end('SIGKILL')
            }
          }
        },
        60_000 + kills * 10_000,
      )

      async function verify(ask: Ask, known: Map<string, Known>): Promise<void> {
        const { volumes } = (await ask('GET', '/v1/volumes?limit=1000')).body
        const names = new Set<string>(volumes.map(({ name }: { name: string }) => name))
        for (const [name, state] of known)
          if (state !== 'maybe') expect([name, names.has(name)]).toEqual([name, state === 'there'])
        expect(onDisk(), 'volumes on the disk').toHaveLength(volumes.length)
        const live = '/v1/sessions?status=creating,running,paused,stopped,crashed&limit=1000'
        const { sessions } = (await ask('GET', live)).body
        const running = sessions.filter(({ status }: { status: string }) => status === 'running')
        for (const { name, status, writer_session_id: writer } of volumes) {
          expect([name, status]).toEqual([name, 'ready'])
          const holder = running.find((session: { volumes: Array<{ name: string }> }) =>
            session.volumes.some((volume) => volume.name === name),
          )
          expect([name, writer]).toEqual([name, holder?.id ?? null])
        }
        // Every volume can be written by a new session as soon as the old ones are gone, and then deleted.
        for (const { id } of sessions) await ask('DELETE', `/v1/sessions/${id}`)
        const [first] = volumes
        if (first) {
          const mounts = [{ name: first.name, path: '/data' }]
          const { status, body } = await ask('POST', '/v1/sessions', { volumes: mounts })
          expect([status, body.detail]).toEqual([201, undefined])
          await ask('DELETE', `/v1/sessions/${body.id}`)
        }
        for (const { name } of volumes) {
          expect((await ask('DELETE', `/v1/volumes/${name}`)).body).toEqual({ deleted: true })
          known.set(name, 'gone')
        }
        for (const [name, state] of known) if (state === 'maybe') known.set(name, 'gone')
      }

      async function endWell(ask: Ask): Promise<void> {
        expect((await ask('GET', '/v1/volumes')).body.volumes).toEqual([])
        expect(onDisk()).toEqual([])
      }

      /** Drafts and trash included. */
      function onDisk(): string[] {
        const volumes = path.join(folder, 'engine/volumes')
        return existsSync(volumes) ? readdirSync(volumes).filter((name) => !/^lock/.test(name)) : []
      }
    },
  )

// biome-ignore lint/suspicious/noExplicitAny: looks into answers of every shape.
type Ask = (method: string, path: string, body?: unknown) => Promise<{ status: number; body: any }>

function asker(url: string): Ask {
  return async (method, where, body) => {
    const response = await fetch(`${url}${where}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: await response.json() }
  }
}
