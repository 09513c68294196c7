/** `npm run bench -- daemon`: sessions over HTTP, beside a bare process, the engine without HTTP, and Docker. */
import type { Cleanup } from '../cleanup.ts'
import { makeRootfs } from '../engine/rootfs.ts'
import { crunMissing } from '../engine/subjects/crun.ts'
import { openDocker } from '../engine/subjects/docker.ts'
import { dockerMissing } from '../engine/subjects/dockerd.ts'
import { openOurs } from '../engine/subjects/ours.ts'
import { openSpawn } from '../engine/subjects/spawn.ts'
import { folderIn, openWorkplace } from '../engine/workplace.ts'
import { collectGarbage } from '../measure.ts'
import type { Report } from '../report.ts'
import { assertGoingOn } from '../stop.ts'
import { type Suite, type SuiteOptions, wanting } from '../suite.ts'
import { burst } from './burst.ts'
import { commands } from './commands.ts'
import { download } from './download.ts'
import { fronts } from './fronts.ts'
import { FLAT, growth, levelsOf } from './growth.ts'
import { lifecycle } from './lifecycle.ts'
import { load } from './load.ts'
import { openServer } from './server.ts'
import type { Bench, Stage } from './stage.ts'

export const daemonSuite: Suite = {
  name: 'daemon',
  about: 'sessions over HTTP, beside a bare spawn, the engine without HTTP, and Docker; as root',
  ids: (quick) => daemonStages(quick).flatMap(({ ids }) => ids),
  run,
}

function daemonStages(quick: boolean): Stage[] {
  return [commands, lifecycle, fronts, burst, growth(quick), download, load]
}

async function run(report: Report, cleanup: Cleanup, options: SuiteOptions): Promise<void> {
  const { quick } = options
  const wants = wanting(options)
  const missing = crunMissing()
  if (missing !== undefined) return report.skip('daemon', missing)
  const stages = daemonStages(quick).filter(({ ids }) => ids.some(wants))
  const needs = (id: string) => stages.some(({ ids }) => ids.includes(id) && wants(id))
  const place = openWorkplace(cleanup)
  for (const [id, atMost] of Object.entries(LIMITS)) report.limit(id, atMost)
  const rootfs = makeRootfs(folderIn(place, 'rootfs'))
  const noDocker = dockerMissing()
  if (needs('docker.command') && noDocker !== undefined) report.skip('docker', noDocker)
  const docker =
    needs('docker.command') && noDocker === undefined ? await openDocker(place, rootfs) : undefined
  const ours = ['engine.command', 'engine.cold', 'daemon.cold.over-engine'].some(needs)
    ? await openOurs(place, rootfs)
    : undefined
  const bench: Bench = {
    place,
    report,
    quick,
    wants,
    server: await openServer(place),
    bare: await openSpawn(place),
    ours,
    docker,
  }
  for (const stage of stages) {
    report.heading(stage.title)
    collectGarbage()
    try {
      await stage.run(bench)
    } catch (error) {
      assertGoingOn()
      report.fail(stage.title, error)
    }
  }
  judge(report, quick)
}

const LIMITS = {
  'daemon.pooled': 7,
  'daemon.cold.over-engine': 5,
  'daemon.burst100.failures': 0,
  'daemon.load.late': 1000,
  'daemon.load.errors': 0,
  'daemon.load.memory': 8,
  'daemon.download1GiB.memory': 64,
}

function judge(report: Report, quick: boolean): void {
  report.heading('Targets')
  report.compare('daemon.run', 'spawn.here', 1)
  report.compare('daemon.run', 'docker.command', 1 / 15)
  report.compare('daemon.exec', 'daemon.run', 1)
  report.compare('daemon.download1GiB', 'host.cat1GiB', 2.5)
  report.compare('daemon.download1GiB.client', 'daemon.download1GiB', 2)
  report.compare(`daemon.run@${levelsOf(quick).at(-1)}`, 'daemon.run@1', FLAT)
  for (const id of Object.keys(LIMITS)) report.recall(id)
}
