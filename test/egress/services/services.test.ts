import { once } from 'node:events'
import { readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { testedRuntime } from '../../../packages/engine/src/isolators/oci/testing/runtimes.ts'
import { closeAll } from '../world/close.ts'
import { type Engine, openEngine } from '../world/engine.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'

const agent = readFileSync(join(import.meta.dirname, 'agent.js'), 'utf8')
const node = { source: dirname(realpathSync(process.execPath)), target: '/opt/node' }
const COUNT = 50

/** How an agent reaches its model: a service of the machine, from a sandbox that reaches nothing else. */
describe.each(['crun', 'runsc'] as const)('services on %s', async (kind) => {
  const runtime = testedRuntime(kind)
  const missing = worldMissing() ?? (await reasonToSkip('root', runtime))
  describe.skipIf(missing)(missing ? `(skipped: ${missing})` : 'an agent and its model', () => {
    let world: World
    let engine: Engine
    let port: number
    beforeAll(async () => {
      world = await openWorld({ sniff: false })
      engine = await openEngine(world, { oci: { runtime } })
      const server = world.start('host', [process.execPath, join(import.meta.dirname, 'model.ts')])
      const [line] = await once(createInterface({ input: server.stdout! }), 'line')
      port = Number(line)
    }, 120_000)
    afterAll(() => closeAll(engine, world), 60_000)

    it(`${COUNT} at once on port 80: events as they come, WebSockets, and requests`, {
      timeout: 90_000,
    }, async () => {
      const id = await engine.create({
        network: { allow: [], services: { model: { host: '127.0.0.1', port } } },
        resources: { memoryMb: 1024 },
        providerOptions: { mounts: [node] },
      })
      const {
        stdout,
        stderr,
        exitCode: ended,
      } = await engine.run(id, {
        cmd: '/opt/node/node',
        args: ['--input-type=module', '-e', agent],
      })
      expect(ended, stderr).toBe(0)
      const { streamed, most, talked, posted } = JSON.parse(stdout)
      expect(streamed).toEqual(Array(COUNT).fill(6))
      expect(most).toBe(COUNT)
      expect(talked).toEqual(Array(COUNT).fill(true))
      const host = 'model.sandkasten.internal'
      expect(posted).toEqual(
        Array.from({ length: COUNT }, (_, at) => ({ method: 'POST', host, bytes: 1000 * (at + 1) })),
      )
      const events = await engine.events(id)
      expect(events.filter(({ verdict }) => verdict !== 'allowed')).toEqual([])
      // Without the service, the same name leads nowhere, and the same server neither.
      await engine.setNetwork(id, { allow: [] })
      for (const url of [`http://${host}/`, `http://127.0.0.1:${port}/`]) {
        const { exitCode } = await engine.run(id, { cmd: 'curl', args: ['-sS', '-m', '5', url] })
        expect(exitCode, url).not.toBe(0)
      }
      const denied = (await engine.events(id)).filter(({ verdict }) => verdict === 'denied')
      expect(denied.map((event) => event.host)).toContain(host)
    })
  })
})
