/** `npm run bench -- network`: what a network policy costs, beside Docker's bridge and the bare host. */
import type { Network } from '@sandkasten/sdk'
import { type Engine, openEngine } from '../../test/egress/world/engine.ts'
import { openWorld, worldMissing } from '../../test/egress/world/world.ts'
import type { Cleanup } from '../cleanup.ts'
import { dockerMissing } from '../engine/subjects/dockerd.ts'
import { openWorkplace } from '../engine/workplace.ts'
import { sampleOf, timed } from '../measure.ts'
import { type Report, reportTurns } from '../report.ts'
import { assertGoingOn } from '../stop.ts'
import { type Suite, type SuiteOptions, wanting } from '../suite.ts'
import { bulk, firstByte, numbers, type Port } from './client.ts'
import {
  BROKERED,
  dockerSubject,
  engineSubject,
  hostSubject,
  type NetworkSubject,
  POLICY,
} from './subjects.ts'

const NAMES = ['host', 'docker', 'open', 'policy', 'brokered'] as const
const PORT_NAMES: readonly Port[] = ['plain', 'tls']
/** The transform is only for TLS. */
const measured = NAMES.flatMap((name) =>
  PORT_NAMES.filter((port) => name !== 'brokered' || port === 'tls').map((port) => ({ name, port })),
)
const ADDED = 'policy.plain.added'

export const networkSuite: Suite = {
  name: 'network',
  about: 'open, a policy and a policy with secrets, beside Docker’s bridge and the bare host; as root',
  ids: () => [
    ...measured.flatMap(({ name, port }) => [`${name}.${port}.bulk`, `${name}.${port}.first`]),
    ADDED,
    ...['none.create', 'policy.create', 'brokered.create'],
  ],
  run,
}

async function run(report: Report, cleanup: Cleanup, options: SuiteOptions): Promise<void> {
  const missing = worldMissing()
  if (missing !== undefined) return report.skip('network', missing)
  const wants = wanting(options)
  const place = openWorkplace(cleanup)
  const world = await openWorld({ sniff: false })
  cleanup.add('the world', () => world[Symbol.asyncDispose]())
  const engine = await openEngine(world, { secrets: { bench: 'a-secret-of-the-benchmark' } })
  cleanup.add('the engine', () => engine[Symbol.asyncDispose]())
  const subjects: NetworkSubject[] = [hostSubject(world)]
  const open = async (name: string, make: () => Promise<NetworkSubject>) => {
    try {
      subjects.push(await make())
    } catch (error) {
      assertGoingOn()
      report.fail(name, error)
    }
  }
  const noDocker = dockerMissing()
  if (noDocker) report.skip('docker', noDocker)
  else await open('docker', () => dockerSubject(world, place, cleanup))
  await open('open', () => engineSubject(engine, 'open', 'open'))
  await open('policy', () => engineSubject(engine, 'policy', POLICY))
  await open('brokered', () => engineSubject(engine, 'brokered', BROKERED))

  const turns = { report, wants }
  const pairs = measured.flatMap(({ name, port }) => {
    const subject = subjects.find((one) => one.name === name)
    return subject ? [{ subject, port }] : []
  })
  report.heading('One connection, 512 MiB')
  const size = 512 << 20
  await reportTurns(
    turns,
    pairs.map(({ subject, port }) => ({
      id: `${subject.name}.${port}.bulk`,
      samples: 2,
      measure: async () => numbers(await subject.run(bulk(port, size)))[0]!,
    })),
    options.quick ? 2 : 8,
  )
  await firstBytes(report, pairs, wants, options.quick ? 2 : 8)
  await creates(report, engine, wants, options.quick ? 4 : 20)
  judge(report)
}

/** Connections of one process, one after another; the first of each process does not count. */
async function firstBytes(
  report: Report,
  pairs: ReadonlyArray<{ subject: NetworkSubject; port: Port }>,
  wants: (id: string) => boolean,
  rounds: number,
): Promise<void> {
  report.heading('From connect to the first byte')
  report.limit(ADDED, 1)
  const values = new Map<string, number[]>()
  for (let round = 0; round < rounds; round += 1) {
    for (const { subject, port } of pairs) {
      const id = `${subject.name}.${port}.first`
      // `added` is the difference between two of these.
      if (!wants(id) && !(wants(ADDED) && port === 'plain')) continue
      assertGoingOn()
      const found = numbers(await subject.run(firstByte(port, 51))).slice(1)
      values.set(id, [...(values.get(id) ?? []), ...found])
    }
  }
  for (const [id, found] of values) report.add(id, found)
  const [policy, docker] = ['policy', 'docker'].map((name) => values.get(`${name}.plain.first`))
  if (!policy || !docker || !wants(ADDED)) return
  const [ours, theirs] = [sampleOf(policy), sampleOf(docker)]
  report.add(ADDED, { p50: ours.p50 - theirs.p50, p95: ours.p95 - theirs.p95, count: ours.count })
}

async function creates(
  report: Report,
  engine: Engine,
  wants: (id: string) => boolean,
  rounds: number,
): Promise<void> {
  report.heading('Create')
  const networks: ReadonlyArray<readonly [string, Network]> = [
    ['none', 'none'],
    ['policy', POLICY],
    ['brokered', BROKERED],
  ]
  await reportTurns(
    { report, wants },
    networks.map(([name, network]) => ({
      id: `${name}.create`,
      samples: 3,
      async measure() {
        let id = ''
        const ms = await timed(async () => {
          id = await engine.create({ network })
        })
        await engine.destroy(id)
        return ms
      },
    })),
    rounds,
  )
}

/** Half the throughput is twice the time. */
function judge(report: Report): void {
  report.heading('Targets')
  report.compare('policy.plain.bulk', 'docker.plain.bulk', 2)
  report.compare('policy.tls.bulk', 'docker.tls.bulk', 2)
  report.compare('brokered.tls.bulk', 'docker.tls.bulk', 2)
  report.recall(ADDED)
  // Two handshakes instead of one. An acknowledgement that the kernel delays would be twenty times.
  report.compare('brokered.tls.first', 'policy.tls.first', 4)
  report.compare('policy.create', 'none.create', 1.1)
}
