/** `npm run bench -- cli`: how long the command takes, beside an empty Node program and `docker run`. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../scripts/tools.ts'
import type { Cleanup } from '../cleanup.ts'
import { IMAGE, openDocker } from '../engine/docker.ts'
import { dockerMissing } from '../engine/dockerd.ts'
import { makeRootfs } from '../engine/rootfs.ts'
import { folderIn, openWorkplace } from '../engine/workplace.ts'
import { type Turn, timed } from '../measure.ts'
import { type Report, reportTurns } from '../report.ts'
import { type Suite, type SuiteOptions, wanting } from '../suite.ts'
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
  const turns: Turn[] = [turn('node.start', process.execPath, ['-e', '0'])]
  const home = folderIn(place, 'home')
  const env = { PATH: process.env.PATH, HOME: home, SANDKASTEN_HOME: home }
  const command = (at: string, bin: string) =>
    Object.entries({ version: ['--version'], help: ['--help'], run: ['run', '--', 'true'] }).map(
      ([name, args]) => turn(`${at}.${name}`, process.execPath, [bin, ...args], env),
    )
  if (ids.some((id) => id.startsWith('cli.') && wants(id)))
    turns.push(...command('cli', await installCommand(place)))
  turns.push(...command('clone', join(root, 'packages/cli/bin/sandkasten.js')))
  const missing = dockerMissing()
  if (missing !== undefined) report.skip('docker.run', missing)
  else if (wants('docker.run')) {
    const { socketPath } = await openDocker(place, makeRootfs(folderIn(place, 'rootfs')))
    const args = ['-H', `unix://${socketPath}`, 'run', '--rm', '--network', 'none', IMAGE, 'true']
    turns.push(turn('docker.run', 'docker', args))
  }
  report.heading('The command')
  await reportTurns({ report, wants }, turns, options.quick ? 3 : 15)
  report.heading('What was promised')
  report.compare('cli.version', 'node.start', 1.5)
  report.compare('cli.run', 'docker.run', 0.5)
}

function turn(id: string, program: string, args: readonly string[], env?: NodeJS.ProcessEnv): Turn {
  return { id, samples: 2, measure: () => timed(() => promisify(execFile)(program, [...args], { env })) }
}
