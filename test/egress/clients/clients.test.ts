import { randomBytes } from 'node:crypto'
import type { NetworkPolicy } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reasonToSkip as isolationMissing } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { closeAll } from '../world/close.ts'
import { type Engine, openEngine } from '../world/engine.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'
import { type Client, clients } from './clients.ts'
import { inFiles, inMemory, processesOf, spellingsOf } from './secrets-inside.ts'
import { findTools, reasonToSkip, type Tools } from './tools.ts'

const missing = worldMissing() ?? (await isolationMissing())
const onCi = Boolean(process.env.CI) && process.env.CI !== 'false'

/** Each client has its own secret, so that a record shows whose it is. */
const secrets = Object.fromEntries(
  clients.map(({ host }) => [host.split('.')[0]!, `sk-${randomBytes(12).toString('hex')}`]),
)
const secretOf = ({ host }: Client) => secrets[host.split('.')[0]!]!
const spellings = clients.flatMap((client) => spellingsOf(secretOf(client), client.basic))
const marker = `marker-${randomBytes(8).toString('hex')}`

const policy: NetworkPolicy = {
  allow: ['*.allowed.example'],
  transform: clients.map(({ host, basic }) => {
    const secret = host.split('.')[0]!
    return {
      match: { host },
      headers: { authorization: basic ? { secret, basic } : { secret, prefix: 'Bearer ' } },
    }
  }),
}

describe.skipIf(missing)(
  `real clients through a policy with secrets${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let world: World
    let engine: Engine
    let tools: Tools
    let id: string
    const outputs: string[] = []
    beforeAll(async () => {
      world = await openWorld({ sniff: false })
      // Go compiles its standard library once for each machine.
      tools = await findTools(world.folder)
      engine = await openEngine(world, { secrets })
      id = await engine.create({
        network: policy,
        envVars: { ...tools.env, MARKER: marker },
        resources: { memoryMb: 2048 },
        providerOptions: { mounts: tools.mounts },
      })
    }, 600_000)
    afterAll(() => closeAll(engine, world), 60_000)

    const folderOf = ({ name }: Client) => name.toLowerCase().replaceAll(' ', '-')
    const run = async (client: Client) => {
      const script = `mkdir -p ${folderOf(client)} && cd ${folderOf(client)} && ${client.script.trim()}`
      const { stdout, stderr } = await engine.run(id, {
        cmd: 'sh',
        args: ['-c', script],
        maxOutputBytes: 64 << 20,
      })
      outputs.push(stdout, stderr)
      return { stdout, stderr }
    }

    it.for(clients.map((client) => [client.name, client] as const))(
      '%s',
      { timeout: 60_000 },
      async ([, client], { skip }) => {
        const reason = reasonToSkip(client, tools)
        if (reason && onCi) throw new Error(reason)
        if (reason) return skip(reason)
        const { stdout, stderr } = await run(client)
        expect(stdout.trimEnd().slice(-5), `${stdout.slice(-3000)}\n${stderr.slice(-3000)}`).toBe('works')
        await world.settle()
        const secret = secretOf(client)
        const expected = client.basic
          ? `Basic ${Buffer.from(`${client.basic}:${secret}`).toString('base64')}`
          : `Bearer ${secret}`
        const seen = world.records.filter(
          ({ headers }) => headers && [headers.host, headers[':authority']].includes(client.host),
        )
        expect(seen.length).toBeGreaterThan(0)
        expect(new Set(seen.map(({ headers }) => headers?.authorization))).toEqual(new Set([expected]))
      },
    )

    it('never show the secret to the sandbox: not in memory, environments, files or output', async () => {
      // They hold everything that they have received until the search is over.
      const programs = [`node -e '${HOLDING_NODE}'`, `python3 -c '${HOLDING_PYTHON}'`]
      const holding = programs.map((script) => engine.run(id, { cmd: 'sh', args: ['-c', script] }))
      const held = () => engine.run(id, { cmd: 'sh', args: ['-c', 'cat /tmp/held.*'] })
      await expect.poll(async () => (await held()).stdout.match(/held/g)?.length).toBe(2)
      const pids = processesOf(engine.name)
      const memory = pids.flatMap((pid) => inMemory(pid, [...spellings, marker]))
      // The search finds what the processes do have, so it could find a secret.
      const markers = memory.filter((place) => place.includes(marker))
      expect(
        markers.some((place) => /memory of .*node/.test(place)),
        markers.join('\n'),
      ).toBe(true)
      expect(
        markers.some((place) => /memory of .*python/.test(place)),
        markers.join('\n'),
      ).toBe(true)
      expect(memory.filter((place) => !place.includes(marker))).toEqual([])
      await engine.run(id, { cmd: 'touch', args: ['/tmp/stop'] })
      for (const { stdout, stderr } of await Promise.all(holding)) outputs.push(stdout, stderr)
      expect(inFiles(engine.root, [marker]).length).toBeGreaterThan(0)
      expect([...inFiles(engine.root, spellings), ...inFiles(engine.runFolder, spellings)]).toEqual([])
      expect(spellings.filter((text) => outputs.some((output) => output.includes(text)))).toEqual([])
      // The servers answer with all headers that they saw.
      expect(outputs.join('')).toContain('authorization')
    }, 60_000)
  },
)

const HOLDING_NODE = `
const { existsSync, writeFileSync } = require("fs"), kept = []
for (let n = 0; n < 5; n++) kept.push(fetch("https://fetch.allowed.example/echo").then(async (r) => [[...r.headers], await r.text()]))
Promise.all(kept).then((all) => {
  console.log(all.join()); writeFileSync("/tmp/held.node", "held")
  const timer = setInterval(() => { if (existsSync("/tmp/stop")) clearInterval(timer) }, 50)
})`

const HOLDING_PYTHON = String.raw`
import os, socket, ssl, time
stream = ssl.create_default_context().wrap_socket(socket.create_connection(("curl.allowed.example", 443)), server_hostname="curl.allowed.example")
stream.sendall(b"GET /echo HTTP/1.1\r\nHost: curl.allowed.example\r\n\r\n")
kept = stream.recv(65536); print(kept); open("/tmp/held.python", "w").write("held")
while not os.path.exists("/tmp/stop"): time.sleep(0.05)`
