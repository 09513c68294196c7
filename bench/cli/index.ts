/** `npm run bench -- cli`: how long the command takes, beside an empty Node program and `docker run`. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../scripts/tools.ts'
import type { Cleanup } from '../cleanup.ts'
import { makeRootfs } from '../engine/rootfs.ts'
import { IMAGE, openDocker } from '../engine/subjects/docker.ts'
import { dockerMissing } from '../engine/subjects/dockerd.ts'
import { folderIn, openWorkplace, type Workplace } from '../engine/workplace.ts'
import type { Turn } from '../measure.ts'
import { type Report, reportTurns } from '../report.ts'
import { type Suite, type SuiteOptions, wanting } from '../suite.ts'
import { type Ask, startWorker } from '../worker.ts'
import { installCommand } from './installed.ts'

const ids = [
  'node.start',
  'docker.run',
  ...['cli', 'clone'].flatMap((at) => [`${at}.version`, `${at}.help`, `${at}.run`]),
]

export const cliSuite: Suite = {
  name: 'cli',
  about: 'the command, installed from tarballs and in this clone, beside node and docker run; as root',
  ids: () => ids,
  run,
}

async function run(report: Report, cleanup: Cleanup, options: SuiteOptions): Promise<void> {
  const wants = wanting(options)
  const place = openWorkplace(cleanup)
  const ask = await openWorker(place)
  const turn = (id: string, ...command: string[]): Turn => ({
    id,
    samples: 2,
    measure: async () => (await ask('run', ...command)).ms,
  })
  const sandkasten = (at: string, bin: string) => [
    turn(`${at}.version`, process.execPath, bin, '--version'),
    turn(`${at}.help`, process.execPath, bin, '--help'),
    turn(`${at}.run`, process.execPath, bin, 'run', '--', 'true'),
  ]
  const turns = [turn('node.start', process.execPath, '-e', '0')]
  if (ids.some((id) => id.startsWith('cli.') && wants(id)))
    turns.push(...sandkasten('cli', await installCommand(place)))
  turns.push(...sandkasten('clone', join(root, 'packages/cli/bin/sandkasten.js')))
  const missing = dockerMissing()
  if (missing !== undefined) report.skip('docker.run', missing)
  else if (wants('docker.run')) {
    const { socketPath } = await openDocker(place, makeRootfs(folderIn(place, 'rootfs')))
    const command = [
      'docker',
      '-H',
      `unix://${socketPath}`,
      'run',
      '--rm',
      '--network',
      'none',
      IMAGE,
      'true',
    ]
    turns.push(turn('docker.run', ...command))
  }
  report.heading('The command')
  await reportTurns({ report, wants }, turns, options.quick ? 3 : 15)
  report.heading('What was promised')
  report.compare('cli.version', 'node.start', 1.5)
  report.compare('cli.run', 'docker.run', 0.5)
}

/** It sees an empty folder as the default place of sandboxes: naming another place would load the configuration. */
async function openWorker(place: Workplace): Promise<Ask> {
  const usual = '/var/lib/sandkasten'
  mkdirSync(usual, { recursive: true })
  const mount = 'mount --bind "$0" "$1" && shift && exec "$@"'
  return startWorker(place.cleanup, new URL('./worker.ts', import.meta.url), {
    args: [folderIn(place, 'home')],
    wrapper: [
      'unshare',
      '--mount',
      '--propagation',
      'private',
      'sh',
      '-c',
      mount,
      folderIn(place, 'engine'),
      usual,
    ],
  })
}
