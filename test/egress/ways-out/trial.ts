/** Tries all ways: from a closed policy, from a policy that allows everything, and from the bare host. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Network, NetworkPolicy } from '@sandkasten/sdk'
import { DAEMON, HOST, METADATA, METADATA_V6, NEIGHBOURS } from '../world/addresses.ts'
import type { Engine } from '../world/engine.ts'
import type { EngineMethods } from '../world/engine-worker.ts'
import type { Reached } from '../world/records.ts'
import type { World } from '../world/world.ts'
import { type Attempt, arrivals, driver, inputOf } from './reached.ts'
import type { Way } from './way.ts'
import { inward, inwardOrNamed } from './ways.ts'

export type EgressEvent = Awaited<ReturnType<EngineMethods['events']>>[number]

export interface Result {
  readonly token: string
  readonly output: string
  /** Empty: the way leads nowhere. */
  readonly arrivals: readonly string[]
}

export interface Trial {
  readonly closed: ReadonlyMap<Way, Result & { readonly events: readonly EgressEvent[] }>
  readonly opened: ReadonlyMap<Way, Result>
  /** The ways to the host and private addresses, from the network `open`. */
  readonly publicOnly: ReadonlyMap<Way, Result>
  /** The same ways, and names that lead there, from the widest policy. */
  readonly widest: ReadonlyMap<Way, Result>
  readonly bare: ReadonlyMap<Way, Result>
  /** Everything that reached a stand-in while only closed sandboxes ran. */
  readonly whileClosed: readonly Reached[]
}

export const SECRET = `secret-${randomBytes(8).toString('hex')}`

export const closedPolicy: NetworkPolicy = { allow: ['allowed.example', '*.wild.example'] }

export const brokeredPolicy: NetworkPolicy = {
  ...closedPolicy,
  transform: [{ match: { host: 'front.wild.example' }, headers: { authorization: { secret: 'front' } } }],
}

/** As wide as a policy can be without naming an address that leads inside. */
export const widestPolicy: NetworkPolicy = { allow: ['*', '0.0.0.0/0', '::/0'], audit: true }

/** Private addresses must be named one by one. */
export const openedPolicy: NetworkPolicy = {
  allow: [
    ...['*.denied.example', 'doh.example', '*.wild.example', 'allowed.example'],
    ...['0.0.0.0/0', '::/0', ...NEIGHBOURS, METADATA, METADATA_V6],
    ...Object.values(DAEMON).flatMap((port) =>
      [HOST.lan, HOST.public, `[${HOST.v6}]`].map((address) => `${address}:${port}`),
    ),
  ],
}

export async function tryAll(
  ways: readonly Way[],
  engine: Engine,
  world: World,
  { hasRoot, hasOpen, hasBare }: Readonly<Record<'hasRoot' | 'hasOpen' | 'hasBare', boolean>>,
): Promise<Trial> {
  const env = {
    WORLD_SOCKET: world.socketPath,
    EGRESS_FOLDER: (await engine.gatewayFolder()) ?? world.folder,
  }
  const inside = async (chosen: readonly Way[], network: Network, asRoot: boolean) => {
    const id = await engine.create({ network, ...(asRoot ? { user: 'root' } : {}) })
    const attempts = attemptsOf(chosen)
    const result = await engine.run(id, {
      ...{ cmd: 'python3', args: ['-c', driver], stdin: inputOf(attempts), env, maxOutputBytes: 8 << 20 },
    })
    if (result.exitCode !== 0) throw new Error(`the driver failed: ${result.stderr}`)
    return { id, attempts, outputs: JSON.parse(result.stdout) as Record<string, string> }
  }
  const group = (policy: Way['policy'], asRoot: boolean, onlyOpen = false) =>
    ways.filter((way) => way.policy === policy && way.asRoot === asRoot && (way.opens || !onlyOpen))

  const runs = await Promise.all([
    inside(group('closed', false), closedPolicy, false),
    inside(group('brokered', false), brokeredPolicy, false),
    inside(group('closed', true), closedPolicy, hasRoot),
  ])
  await world.settle()
  const whileClosed = [...world.records]
  const closed = new Map<Way, Result & { events: EgressEvent[] }>()
  for (const { id, attempts, outputs } of runs) {
    const events = await engine.events(id)
    for (const attempt of attempts)
      closed.set(attempt.way, { ...resultOf(attempt, whileClosed, outputs), events })
    await engine.destroy(id)
  }

  const withoutRoot = (chosen: readonly Way[]) => chosen.filter(({ asRoot }) => !asRoot)
  const [opened, widest, publicOnly, bare] = await Promise.all([
    inside(group('closed', false, true), openedPolicy, false),
    inside(withoutRoot(inwardOrNamed), widestPolicy, false),
    hasOpen ? inside(withoutRoot(inward), 'open', false) : undefined,
    onHost(hasBare ? ways : [], world, env),
  ])
  await world.settle()
  const results = ({ attempts, outputs }: Outputs) =>
    new Map(attempts.map((attempt) => [attempt.way, resultOf(attempt, world.records, outputs)]))
  /** Where a way must lead out, it gets a second chance: on a busy machine, its time may have run out. */
  const outOf = async (first: Outputs, again: (failed: readonly Way[]) => Promise<Outputs>) => {
    const all = results(first)
    const failed = [...all].filter(([, { arrivals }]) => arrivals.length === 0).map(([way]) => way)
    if (failed.length === 0) return all
    const second = await again(failed)
    await world.settle()
    return new Map([...all, ...results(second)])
  }
  const openedResults = await outOf(opened, async (failed) => {
    const second = await inside(failed, openedPolicy, false)
    await engine.destroy(second.id)
    return second
  })
  const bareResults = await outOf(bare, (failed) => onHost(failed, world, env))
  for (const one of [opened, widest, publicOnly]) if (one) await engine.destroy(one.id)
  return {
    closed,
    opened: openedResults,
    widest: results(widest),
    publicOnly: publicOnly ? results(publicOnly) : new Map(),
    bare: bareResults,
    whileClosed,
  }
}

interface Outputs {
  readonly attempts: readonly Attempt[]
  readonly outputs: Record<string, string>
}

async function onHost(ways: readonly Way[], world: World, env: NodeJS.ProcessEnv): Promise<Outputs> {
  const attempts = attemptsOf(ways)
  const child = world.start('host', ['/usr/bin/python3', '-c', driver], { ...process.env, ...env })
  let text = ''
  child.stdout!.on('data', (data) => {
    text += data
  })
  child.stdin!.end(inputOf(attempts))
  await once(child, 'close')
  return { attempts, outputs: JSON.parse(text) }
}

/** A token is a DNS label and the name of a device, so it has at most 15 characters. */
function attemptsOf(ways: readonly Way[]): Attempt[] {
  return ways.map((way) => ({ way, token: `t${randomBytes(5).toString('hex')}` }))
}

function resultOf(
  { way, token }: Attempt,
  records: readonly Reached[],
  outputs: Record<string, string>,
): Result {
  const output = outputs[token] ?? 'no output'
  return { token, output, arrivals: arrivals(way, token, records, output) }
}
