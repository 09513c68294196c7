/** `npm run bench -- engine`: the engine beside a bare process, plain crun and Docker, in one run on one machine. */
import { join } from 'node:path'
import type { Cleanup } from '../cleanup.ts'
import { collectGarbage } from '../measure.ts'
import type { Report } from '../report.ts'
import { assertGoingOn } from '../stop.ts'
import { type Suite, type SuiteOptions, wanting } from '../suite.ts'
import { findGvisor } from './gvisor.ts'
import { assertNothingLeft } from './remains.ts'
import { makeRootfs } from './rootfs.ts'
import { burst } from './stages/burst.ts'
import { commands } from './stages/commands.ts'
import { COPY_LIMITS, copies, judgeCopies } from './stages/copies.ts'
import { files } from './stages/files.ts'
import { FLAT, growth, mostBoxes } from './stages/growth.ts'
import { idle } from './stages/idle.ts'
import { lifecycle } from './stages/lifecycle.ts'
import { port } from './stages/port.ts'
import type { Bench, Stage } from './stages/stage.ts'
import { crunMissing, openCrun } from './subjects/crun.ts'
import { openDocker } from './subjects/docker.ts'
import { dockerMissing } from './subjects/dockerd.ts'
import { openOurs } from './subjects/ours.ts'
import { openOursOnDocker } from './subjects/ours-docker.ts'
import { openSpawn } from './subjects/spawn.ts'
import { folderIn, openWorkplace, type Workplace } from './workplace.ts'

/** Files come last: they grow this process, which slows down everything that it starts. */
function engineStages(quick: boolean): Stage[] {
  return [commands, lifecycle, port, burst, copies(quick), idle, growth(quick), files]
}

export const engineSuite: Suite = {
  name: 'engine',
  about: 'bare spawn, hardened crun, the Docker Engine API and our engine, side by side; as root',
  ids: (quick) => engineStages(quick).flatMap(({ ids }) => ids),
  run,
}

async function run(report: Report, cleanup: Cleanup, options: SuiteOptions): Promise<void> {
  const { quick } = options
  const wants = wanting(options)
  const stages = engineStages(quick).filter(({ ids }) => ids.some(wants))
  const place = openWorkplace(cleanup)
  for (const [id, atMost] of Object.entries({ ...LIMITS, ...COPY_LIMITS })) report.limit(id, atMost)
  const subjects = await openSubjects(place, report, (name) =>
    stages.some(({ ids }) => ids.some((id) => id.startsWith(`${name}.`) && wants(id))),
  )
  const bench: Bench = { place, report, quick, wants, ...subjects }
  for (const stage of stages) {
    report.heading(stage.title)
    collectGarbage()
    try {
      await stage.run(bench)
      if (bench.ours) assertNothingLeft(place.group, join('/run', place.name))
    } catch (error) {
      assertGoingOn()
      report.fail(stage.title, error)
    }
  }
  judge(report, quick)
}

/** Each is opened separately: without Docker the rest is still measured. */
async function openSubjects(
  place: Workplace,
  report: Report,
  isNeeded: (name: string) => boolean,
): Promise<Pick<Bench, 'bare' | 'crun' | 'docker' | 'ours' | 'oursOnDocker' | 'oursInGvisor'>> {
  const rootfs = makeRootfs(folderIn(place, 'rootfs'))
  const open = async <T>(
    isWanted: boolean,
    name: string,
    missing: string | undefined,
    make: () => Promise<T>,
  ): Promise<T | undefined> => {
    if (!isWanted) return undefined
    if (missing !== undefined) {
      report.skip(name, missing)
      return undefined
    }
    try {
      return await make()
    } catch (error) {
      assertGoingOn()
      report.fail(name, error)
      return undefined
    }
  }
  const crun = await open(isNeeded('crun'), 'crun', crunMissing(), () => openCrun(place, rootfs))
  // Our isolator `docker` needs the Docker daemon, whether or not Docker itself is measured.
  const wanted = isNeeded('docker') || isNeeded('engine-docker')
  const docker = await open(wanted, 'docker', dockerMissing(), () => openDocker(place, rootfs))
  const oursOnDocker =
    docker &&
    (await open(isNeeded('engine-docker'), 'engine-docker', undefined, () =>
      openOursOnDocker(place, docker.socketPath),
    ))
  const ours = await open(isNeeded('engine'), 'engine', crunMissing(), () => openOurs(place, rootfs))
  const gvisor = isNeeded('engine-gvisor') ? await findGvisor() : { missing: 'not requested' }
  const missing = 'missing' in gvisor ? gvisor.missing : undefined
  const oursInGvisor = await open(isNeeded('engine-gvisor'), 'engine-gvisor', missing, () =>
    openOurs(place, rootfs, { name: 'engine-gvisor', ...gvisor }),
  )
  return {
    bare: await openSpawn(place),
    crun,
    docker,
    ours,
    oursOnDocker,
    oursInGvisor,
  }
}

const LIMITS = {
  'engine.idle.memory': 4096,
  'engine.burst100.wall': 2000,
  'engine.burst100.failures': 0,
}

/** Compares with the targets. Values are the p50 of this run. */
function judge(report: Report, quick: boolean): void {
  report.heading('Targets')
  report.compare('engine.command', 'spawn.command', 1)
  report.compare('engine.command', 'docker.command', 1 / 20)
  report.compare('engine.shell', 'spawn.command', 1)
  report.compare('engine.shell', 'docker.command', 1 / 20)
  report.compare('engine.cold', 'docker.cold', 1 / 15)
  report.compare('engine.cold', 'crun.cold', 0.5)
  report.compare('engine.destroy', 'docker.destroy', 1 / 4)
  report.compare('engine-docker.command', 'docker.command', 1 / 10)
  for (const id of Object.keys(LIMITS)) report.recall(id)
  report.compare(`engine.command@${mostBoxes(quick)}`, 'engine.command@1', FLAT)
  judgeCopies({ report, quick })
}
