/** Plain crun, hardened: `crun run -d` and `crun exec` with crun's own seccomp and control groups. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { findProgram } from '../../machine.ts'
import { assertGoingOn } from '../../stop.ts'
import { startWorker } from '../../worker.ts'
import { folderIn, groupRoots, type Workplace } from '../workplace.ts'
import { assertHardened, type Box, type Subject } from './subject.ts'

/** Why crun cannot be measured; undefined if it can. */
export function crunMissing(): string | undefined {
  if (process.getuid?.() !== 0) return 'it needs root'
  return findProgram('crun') ? undefined : 'crun is not installed: apt-get install crun'
}

export async function openCrun(place: Workplace, rootfs: string): Promise<Subject> {
  const folder = folderIn(place, 'crun')
  const script = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
  const ask = await startWorker(place.cleanup, new URL('./crun-worker.ts', import.meta.url), {
    args: [folder, rootfs, place.name],
    wrapper: ['unshare', '-m', '--propagation', 'private', 'sh', '-c', script, 'sh'],
  })
  const live = new Set<string>()
  let count = 0
  place.cleanup.add('crun’s containers', async () => {
    for (const id of live) await ask('destroy', id)
  })

  /**
   * On a busy machine crun 1.8 sometimes fails to enter a container that it has just started (`setns`: EPERM), so one
   * retry is allowed.
   */
  async function cold(tries = 2): Promise<{ ms: number; box: Box }> {
    assertGoingOn()
    count += 1
    const id = `crun-${count}`
    live.add(id)
    try {
      const { ms } = await ask('cold', id)
      return { ms, box: box(id) }
    } catch (error) {
      await box(id).destroy()
      if (tries === 1) throw error
      return cold(tries - 1)
    }
  }

  function box(id: string): Box {
    return {
      command: async () => (await ask('command', id)).ms,
      async destroy() {
        const { ms } = await ask('destroy', id)
        live.delete(id)
        const left = groupRoots().filter((root) => existsSync(join(root, place.name, id)))
        if (left.length > 0) throw new Error(`crun left control groups: ${left.join(', ')}`)
        return ms
      },
    }
  }

  const first = await cold()
  assertHardened('crun', (await ask('status', 'crun-1')).text ?? '')
  await first.box.destroy()
  return { name: 'crun', cold: () => cold() }
}
