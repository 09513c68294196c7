/** Sandboxes of `oci` for the escape corpus. */
import { join } from 'node:path'
import type { Cage, Captive, SpecChanges } from '../../testing/cage.ts'
import { readOr } from '../../testing/cage.ts'
import { createBench } from './bench.ts'

export async function openCage(): Promise<Cage> {
  const bench = await createBench()
  return {
    traits: {
      ids: ({ root: 'own', range: 'common', own: 'account' } as const)[bench.kind],
      entries: [],
      devices: ['core'],
      exactErrno: true,
      socket: 'unnamed',
      countsOom: bench.kind === 'root',
    },
    folder: bench.folder,
    async start(changes?: SpecChanges): Promise<Captive> {
      const box = await bench.start(changes)
      const { folder, sandboxId } = box.spec
      return {
        ...box,
        hostId: (inside) => bench.hostId(box, inside),
        runnerPid: box.pids.runner,
        outsiders: [box.pids.shim],
        socket: join(bench.options.runFolder!, sandboxId, 'runner.sock'),
        notes: ['shim.json', 'range'].map((file) => join(folder, file)),
      }
    },
    async remove({ spec }) {
      await bench.isolator.remove(spec)
      const range = readOr(join(spec.folder, 'range'))
      return range === undefined ? [] : [`range ${range}`]
    },
    [Symbol.asyncDispose]: () => bench[Symbol.asyncDispose](),
  }
}
