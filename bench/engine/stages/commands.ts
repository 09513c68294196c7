import { timed } from '../../measure.ts'
import { reportTurns } from '../../report.ts'
import { spawnTurns } from '../subjects/spawn.ts'
import type { Bench, Stage } from './stage.ts'

export const commands: Stage = {
  title: 'One more command (sh -c true)',
  ids: [
    ...['spawn.command', 'spawn.output', 'spawn.silent', 'spawn.here', 'crun.command', 'docker.command'],
    ...['engine.command', 'engine.shell', 'engine-docker.command', 'engine-gvisor.command'],
  ],
  async run(bench: Bench) {
    const { crun, docker, ours, oursOnDocker, oursInGvisor, quick } = bench
    const boxes = [
      { subject: crun, id: 'crun.command', samples: 5 },
      { subject: docker, id: 'docker.command', samples: 3 },
      { subject: ours, id: 'engine.command', samples: 15 },
      { subject: oursOnDocker, id: 'engine-docker.command', samples: 15 },
      { subject: oursInGvisor, id: 'engine-gvisor.command', samples: 15 },
    ].filter(({ id }) => bench.wants(id))
    const opened = await Promise.all(
      boxes.map(async ({ subject, ...turn }) => ({ ...turn, box: (await subject?.cold())?.box })),
    )
    const sandbox = bench.wants('engine.shell') ? await ours?.create() : undefined
    try {
      const shell = await sandbox?.openShell()
      const turns = opened.flatMap(({ id, samples, box }) =>
        box ? [{ id, samples, measure: box.command }] : [],
      )
      const exec = async () => {
        const result = await shell?.exec('true')
        if (result?.exitCode !== 0) throw new Error(`exit code ${result?.exitCode}`)
      }
      if (shell) turns.push({ id: 'engine.shell', samples: 15, measure: () => timed(exec) })
      await reportTurns(bench, [...spawnTurns(bench.bare, 15), ...turns], quick ? 6 : 25)
    } finally {
      for (const { box } of opened) await box?.destroy()
      if (sandbox) await ours?.destroy(sandbox)
    }
  },
}
