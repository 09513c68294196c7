/** `npm run bench -- opencode`: agents in sandboxes beside bare ones, and sandbox tools beside the SDK's own call. */
import type { Cleanup } from '../cleanup.ts'
import { assertNothingLeft } from '../engine/remains.ts'
import { makeRootfs } from '../engine/rootfs.ts'
import { crunMissing } from '../engine/subjects/crun.ts'
import { type Ours, openOurs } from '../engine/subjects/ours.ts'
import { folderIn, openWorkplace, type Workplace } from '../engine/workplace.ts'
import { takeTurns } from '../measure.ts'
import type { Report } from '../report.ts'
import { assertGoingOn } from '../stop.ts'
import { type Suite, type SuiteOptions, wanting } from '../suite.ts'
import { findBinary } from './home.ts'
import { hostTurns } from './host.ts'
import { PHASES, sandboxTurns } from './sandboxes.ts'
import { ADDED, measureTools, toolIds } from './tools.ts'

const WAYS = ['plain', 'mounted', 'resumed'] as const
const started = ['host.opencode', 'host.again', ...WAYS.map((name) => `${name}.bootstrap`)]
const parts = WAYS.flatMap((name) => [
  `${name}.create+bootstrap`,
  ...PHASES.filter((phase) => phase !== 'copy' || name === 'plain').map((phase) => `${name}.${phase}`),
])

export const opencodeSuite: Suite = {
  name: 'opencode',
  about: 'opencode in sandboxes and bare on the host, and sandbox tools over MCP; as root',
  ids: () => [...started, ...parts, ...toolIds],
  run,
}

async function run(report: Report, cleanup: Cleanup, options: SuiteOptions): Promise<void> {
  const missing = crunMissing()
  if (missing !== undefined) return report.skip('opencode', missing)
  const wants = wanting(options)
  const place = openWorkplace(cleanup)
  const ours = await openOurs(place, makeRootfs(folderIn(place, 'rootfs')))
  const stage = async (title: string, ids: readonly string[], work: () => Promise<void>) => {
    if (!ids.some(wants)) return
    report.heading(title)
    try {
      await work()
      assertNothingLeft(place.group, ours.engine.oci!.runFolder!)
    } catch (error) {
      assertGoingOn()
      report.fail(title, error)
    }
  }
  for (const id of ADDED) report.limit(id, 3)
  await stage('opencode, to the first healthy answer', [...started, ...parts], () =>
    starts({ place, ours, report, wants, rounds: options.quick ? 2 : 10 }),
  )
  await stage('One command', toolIds, () =>
    measureTools({ ours, place, report, wants, rounds: options.quick ? 4 : 20 }),
  )
  report.heading('Targets')
  report.compare('plain.bootstrap', 'host.opencode', 1.15)
  report.compare('mounted.bootstrap', 'host.opencode', 1.15)
  report.compare('resumed.create+bootstrap', 'host.opencode', 1.15)
  for (const id of ADDED) report.recall(id)
}

interface Starts {
  readonly place: Workplace
  readonly ours: Ours
  readonly report: Report
  readonly rounds: number
  wants(id: string): boolean
}

async function starts({ place, ours, report, wants, rounds }: Starts): Promise<void> {
  const { turns, more, close } = await sandboxTurns(ours)
  try {
    const wanted = [...(await hostTurns(place, findBinary())), ...turns].filter(
      ({ id }) => wants(id) || parts.some((part) => part.split('.')[0] === id.split('.')[0] && wants(part)),
    )
    const values = await takeTurns(wanted, rounds, (id, error) => report.fail(id, error))
    const found = new Map([...values, ...more])
    for (const id of [...started, ...parts]) if (found.has(id) && wants(id)) report.add(id, found.get(id)!)
  } finally {
    await close()
  }
}
