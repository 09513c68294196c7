import { spawnTurns } from '../engine/subjects/spawn.ts'
import { timed } from '../measure.ts'
import { reportTurns } from '../report.ts'
import type { Stage } from './stage.ts'

const SPAWNS = ['spawn.command', 'spawn.here']

export const commands: Stage = {
  title: 'One more command (sh -c true), over HTTP',
  ids: [...SPAWNS, 'docker.command', 'engine.command', 'daemon.run', 'daemon.exec'],
  async run(bench) {
    const { server, docker, ours, bare, quick, wants } = bench
    const session = await server.create()
    const container = wants('docker.command') ? (await docker?.cold())?.box : undefined
    const box = wants('engine.command') ? (await ours?.cold())?.box : undefined
    try {
      const exec = async () => {
        const { exitCode: code } = await session.exec('true')
        if (code !== 0) throw new Error(`exit code ${code}`)
      }
      const turns = [
        ...spawnTurns(bare, 15).filter(({ id }) => SPAWNS.includes(id)),
        { id: 'daemon.run', samples: 15, measure: () => timed(() => server.run(session)) },
        { id: 'daemon.exec', samples: 15, measure: () => timed(exec) },
      ]
      if (container) turns.push({ id: 'docker.command', samples: 3, measure: container.command })
      if (box) turns.push({ id: 'engine.command', samples: 15, measure: box.command })
      await reportTurns(bench, turns, quick ? 6 : 25)
    } finally {
      await session.destroy()
      await container?.destroy()
      await box?.destroy()
    }
  },
}
