import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { NetworkPolicy } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { DENIED } from '../world/addresses.ts'
import { closeAll } from '../world/close.ts'
import { type Engine, openEngine } from '../world/engine.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'

const missing = worldMissing() ?? (await reasonToSkip())
const program = readFileSync(join(import.meta.dirname, 'load.py'), 'utf8')
const limits = { connections: 1500 }
const both: NetworkPolicy = { allow: ['allowed.example:7000', 'kept.wild.example:7000'], limits }
const onlyKept: NetworkPolicy = { allow: ['kept.wild.example:7000'], limits }

interface HostState {
  readonly open: number
  readonly resets: number
  /** Connections that ended without a reset. */
  readonly ends: number
  readonly failed: number
  readonly echoes: number
}

interface State {
  readonly hosts: Readonly<Record<string, HostState>>
  /** How often the denied server was tried. */
  readonly attempts: number
}

describe.skipIf(missing)(`changes under load${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let world: World
  let engine: Engine
  beforeAll(async () => {
    world = await openWorld({ sniff: false })
    engine = await openEngine(world)
  }, 120_000)
  afterAll(() => closeAll(engine, world), 60_000)

  const sh = async (id: string, script: string) => engine.run(id, { cmd: 'sh', args: ['-c', script] })

  /** A sandbox under load. Nothing of its attempts on the denied server may arrive until it stops. */
  async function underLoad(network: NetworkPolicy, counts: Readonly<Record<string, number>>) {
    const id = await engine.create({ network, resources: { memoryMb: 1024 } })
    const token = `t${randomBytes(6).toString('hex')}`
    const hosts = Object.entries(counts).map(([host, count]) => `${host}:${count}`)
    const running = engine.run(id, { cmd: 'python3', args: ['-c', program, token, ...hosts] })
    // Its end is checked below. A failure before that must not end the test's process.
    running.catch(() => {})
    const state = async (): Promise<State> => {
      const { stdout } = await sh(id, 'cat /tmp/load.json')
      return stdout === '' ? { hosts: {}, attempts: 0 } : JSON.parse(stdout)
    }
    const until = (what: string, holds: (hosts: State['hosts']) => boolean) =>
      expect
        .poll(
          async () => {
            const { hosts } = await state()
            return holds(hosts) ? what : JSON.stringify(hosts)
          },
          { timeout: 30_000, interval: 100 },
        )
        .toBe(what)
    await until(
      'all are open',
      (now) => hosts.length > 0 && Object.entries(counts).every(([host, count]) => now[host]?.open === count),
    )
    return {
      id,
      state,
      until,
      /** Returns how often the denied server was tried. */
      async stop({ arrives = false } = {}) {
        await sh(id, 'touch /tmp/stop')
        const { stdout, stderr } = await running
        await world.settle()
        expect(world.records.some(({ data }) => data.includes(token))).toBe(arrives)
        expect(stdout, stderr).not.toBe('')
        await engine.destroy(id)
        return (JSON.parse(stdout) as State).attempts
      },
    }
  }

  /** The answer of the echo server to one more connection. */
  const answer = async (id: string, host: string) =>
    (
      await sh(
        id,
        `python3 -c 'import socket; print(socket.create_connection(("${host}", 7000), 3).recv(7).decode())' 2>&1`,
      )
    ).stdout

  it('a policy resets the connections that it no longer allows, and no others', async () => {
    const load = await underLoad(both, { 'allowed.example': 500, 'kept.wild.example': 500 })
    const before = await load.state()
    await engine.setNetwork(load.id, onlyKept)
    await load.until('reset', (now) => now['allowed.example']?.resets === 500)
    expect(await answer(load.id, 'allowed.example')).not.toContain('reached')
    expect(await answer(load.id, 'kept.wild.example')).toContain('reached')
    await load.until(
      'the others echo',
      (now) => now['kept.wild.example']!.echoes >= before.hosts['kept.wild.example']!.echoes + 1000,
    )
    const after = (await load.state()).hosts
    expect(after['allowed.example']).toMatchObject({ open: 0, resets: 500, ends: 0, failed: 0 })
    expect(after['kept.wild.example']).toMatchObject({ open: 500, resets: 0, ends: 0, failed: 0 })
    // Back again: new connections work at once.
    await engine.setNetwork(load.id, both)
    expect(await answer(load.id, 'allowed.example')).toContain('reached')
    expect(await load.stop()).toBeGreaterThan(20)
  }, 90_000)

  it('the attempts on the denied server arrive if a policy allows them', async () => {
    const load = await underLoad({ allow: [...both.allow, DENIED] }, { 'allowed.example': 1 })
    await load.stop({ arrives: true })
  }, 60_000)

  it('a network without access ends all connections', async () => {
    const load = await underLoad(both, { 'allowed.example': 100 })
    await engine.setNetwork(load.id, { allow: [] })
    await load.until('reset', (now) => now['allowed.example']?.resets === 100)
    expect(await answer(load.id, 'allowed.example')).not.toContain('reached')
    await load.stop()
  }, 60_000)

  it('a killed gateway resets all connections, comes back, and lets nothing out meanwhile', async () => {
    const load = await underLoad(both, { 'allowed.example': 500, 'kept.wild.example': 500 })
    const pid = await engine.gatewayPid()
    process.kill(pid, 'SIGKILL')
    const startedAt = performance.now()
    await load.until('reset', (now) => Object.values(now).every(({ resets }) => resets === 500))
    await expect.poll(() => answer(load.id, 'allowed.example'), { timeout: 20_000 }).toContain('reached')
    console.log(
      `a new connection works ${Math.round(performance.now() - startedAt)} ms after the gateway was killed`,
    )
    expect(await engine.gatewayPid()).not.toBe(pid)
    expect(await answer(load.id, 'denied.example')).not.toContain('reached')
    expect(await load.stop()).toBeGreaterThan(20)
  }, 90_000)

  it('a gateway that is killed again and again does not lose a policy', async () => {
    const load = await underLoad(both, { 'allowed.example': 20 })
    await engine.setNetwork(load.id, onlyKept)
    for (let round = 0; round < 3; round += 1) {
      process.kill(await engine.gatewayPid(), 'SIGKILL')
      await expect.poll(() => answer(load.id, 'kept.wild.example'), { timeout: 20_000 }).toContain('reached')
      expect(await answer(load.id, 'allowed.example')).not.toContain('reached')
    }
    await load.stop()
  }, 90_000)
})
