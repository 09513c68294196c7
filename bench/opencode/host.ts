/** opencode bare on this machine, in a new home for each start, or in one that an earlier start has left. */
import { mkdirSync, readlinkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { end, processes, type Workplace } from '../engine/workplace.ts'
import type { Turn } from '../measure.ts'
import { startWorker } from '../worker.ts'

export async function hostTurns(place: Workplace, binary: string): Promise<Turn[]> {
  const at = join(place.folder, 'host')
  const project = join(at, 'project')
  mkdirSync(project, { recursive: true })
  place.cleanup.add('opencode on this machine', () => end(() => opencodesIn(at)))
  const ask = await startWorker(place.cleanup, new URL('./host-worker.ts', import.meta.url))
  const start = async (home: string) => {
    const { ms } = await ask('start', binary, home, project).finally(() => ask('end'))
    const left = opencodesIn(at)
    if (left.length > 0) throw new Error(`opencode has left processes: ${left.join(', ')}`)
    return ms
  }
  let count = 0
  return [
    {
      id: 'host.opencode',
      samples: 1,
      async measure() {
        count += 1
        const home = join(at, `home-${count}`)
        try {
          return await start(home)
        } finally {
          rmSync(home, { recursive: true, force: true })
        }
      },
    },
    { id: 'host.again', samples: 1, measure: () => start(join(at, 'home')) },
  ]
}

function opencodesIn(folder: string): number[] {
  return processes().filter((pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`).startsWith(`${folder}/`)
    } catch {
      return false
    }
  })
}
