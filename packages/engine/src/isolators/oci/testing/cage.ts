/** Sandboxes of `oci` for the escape corpus. */
import { join } from 'node:path'
import type { Cage, Captive, SpecChanges } from '../../testing/cage.ts'
import { readOr } from '../../testing/cage.ts'
import { type BenchOptions, createBench } from './bench.ts'
import { testedRuntime } from './runtimes.ts'

/** Harmless differences between runtimes. */
const traits = {
  crun: { devices: ['core'], exactErrno: true },
  // runc builds the filter with libseccomp.
  runc: { devices: [], exactErrno: true, x32Ends: true },
  // gVisor's own kernel provides these devices.
  runsc: { devices: ['fuse', 'net'], exactErrno: false, ownKernel: true },
} as const

export async function openCage(
  runtime: keyof typeof traits = 'crun',
  { user, ...options }: Pick<SpecChanges, 'user'> & BenchOptions = {},
): Promise<Cage> {
  const bench = await createBench(testedRuntime(runtime), options)
  return {
    traits: {
      ids: ({ root: 'own', range: 'common', own: 'account' } as const)[bench.kind],
      entries: [],
      asRoot: user === 'root',
      socket: 'unnamed',
      countsOom: bench.kind === 'root',
      // All sandboxes of an account share the same host users. Without a range, that user is the account itself.
      ...(bench.kind === 'root'
        ? {}
        : { shared: { neighbours: ['pipes'], host: bench.kind === 'own' ? ['pipes'] : [] } as const }),
      ...traits[runtime],
    },
    folder: bench.folder,
    async start(changes?: SpecChanges): Promise<Captive> {
      const box = await bench.start({ ...(user === undefined ? {} : { user }), ...changes })
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
