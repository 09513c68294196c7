/**
 * Copies of a disk: snapshots, forks, and sandboxes created from a snapshot. Their cost must depend on the changes,
 * not on the size of the image (`@…`, in MiB) or the number of snapshots below (`@depth…`).
 *
 * The image is a root file system with one large sparse file. It is never read, but copying it would still take time
 * in proportion to its size.
 */
import { cpSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Turn, takeTurns, timed } from '../../measure.ts'
import type { Ours, Sandbox } from '../subjects/ours.ts'
import { folderIn } from '../workplace.ts'
import type { Bench, Stage } from './stage.ts'

const CHANGED_BYTES = 10 * 1024 * 1024
const USUAL = 1024
const DEEP = 50

export function copies(quick: boolean): Stage {
  const sizes = quick ? [USUAL] : [100, USUAL, 4096]
  const depths = quick ? [1] : [1, DEEP]
  const forks = sizes.flatMap((size) => [`engine.fork.stopped@${size}`, `engine.fork.running@${size}`])
  const restores = depths.map((depth) => `engine.restore@depth${depth}`)
  return {
    title: `Copies: ${CHANGED_BYTES / 1024 ** 2} MiB changed on an image of this many MiB (@)`,
    ids: [
      'engine.create',
      'engine.snapshot.stopped',
      'engine.snapshot.running',
      'engine.fork.running4',
      'docker.commit',
      ...forks,
      ...restores,
    ],
    async run(bench: Bench) {
      const { ours, docker, report, wants } = bench
      const turns: Turn[] = []
      const closing: (() => Promise<unknown>)[] = []
      try {
        if (ours) {
          for (const size of sizes) turns.push(...(await forkTurns(bench, ours, size, closing)))
          for (const depth of depths) turns.push(await restoreTurn(ours, depth, closing))
        }
        if (docker && wants('docker.commit')) {
          const container = await docker.openCommit(CHANGED_BYTES)
          closing.push(() => container.close())
          turns.push({ id: 'docker.commit', samples: 1, measure: () => container.commit() })
        }
        const wanted = turns.filter(({ id }) => wants(id))
        const values = await takeTurns(wanted, quick ? 3 : 10, (id, error) => report.fail(id, error), 50)
        for (const { id } of wanted) if (values.has(id)) report.add(id, values.get(id)!)
      } finally {
        for (const close of closing.reverse()) await close()
      }
    },
  }
}

export function judgeCopies({ report, quick }: Pick<Bench, 'report' | 'quick'>): void {
  report.compare(`engine.fork.stopped@${USUAL}`, 'engine.create', 1.5)
  if (!quick)
    for (const kind of ['stopped', 'running'])
      report.compare(`engine.fork.${kind}@4096`, `engine.fork.${kind}@100`, 1.5)
  report.recall(`engine.fork.running@${USUAL}`)
  report.compare('engine.snapshot.stopped', 'docker.commit', 1 / 10)
  report.compare('engine.snapshot.running', 'docker.commit', 1)
  for (const depth of quick ? [1] : [1, DEEP])
    report.compare(`engine.restore@depth${depth}`, 'engine.create', 1.2)
}

export const COPY_LIMITS = { [`engine.fork.running@${USUAL}`]: 100 }

async function forkTurns(
  { place }: Bench,
  ours: Ours,
  size: number,
  closing: (() => Promise<unknown>)[],
): Promise<Turn[]> {
  const image = folderIn(place, `image-${size}`)
  cpSync(ours.rootfs, image, { recursive: true, verbatimSymlinks: true })
  writeFileSync(join(image, 'large'), '')
  truncateSync(join(image, 'large'), size * 1024 * 1024)
  const [running, stopped] = [await changed(ours, image), await changed(ours, image)]
  closing.push(
    () => ours.destroy(running),
    () => stopped.destroy(),
  )
  await stopped.stop()
  const once = (id: string, measure: () => Promise<number>): Turn => ({ id, samples: 2, measure })
  const fork = (sandbox: Sandbox, count: number) => async () => {
    let made: Awaited<ReturnType<Sandbox['fork']>> = []
    const ms = await timed(async () => {
      made = await sandbox.fork({ count })
    })
    for (const one of made) {
      if (one instanceof Error) throw one
      await ours.destroy(one)
    }
    return ms
  }
  const snapshot = (sandbox: Sandbox) => async () => {
    // A stopped disk without changes would need no work.
    if (sandbox === stopped) await touch(sandbox)
    let snapshotId = ''
    const ms = await timed(async () => {
      snapshotId = (await sandbox.snapshot()).snapshotId
    })
    await ours.deleteSnapshot(snapshotId)
    return ms
  }
  const turns = [
    once(`engine.fork.stopped@${size}`, fork(stopped, 1)),
    once(`engine.fork.running@${size}`, fork(running, 1)),
  ]
  if (size !== USUAL) return turns
  return [
    ...turns,
    once('engine.create', () => created(ours, { image })),
    once('engine.fork.running4', fork(running, 4)),
    once('engine.snapshot.stopped', snapshot(stopped)),
    once('engine.snapshot.running', snapshot(running)),
  ]
}

async function restoreTurn(ours: Ours, depth: number, closing: (() => Promise<unknown>)[]): Promise<Turn> {
  const sandbox = await ours.create({ image: ours.rootfs })
  const snapshots: string[] = []
  closing.push(
    () => sandbox.destroy(),
    async () => {
      for (const id of snapshots) await ours.deleteSnapshot(id)
    },
  )
  for (let step = 0; step < depth; step += 1) {
    await sandbox.files.writeFile(`step-${step}`, String(step))
    await sandbox.stop()
    snapshots.push((await sandbox.snapshot()).snapshotId)
    if (step < depth - 1) await sandbox.start()
  }
  const snapshotId = snapshots.at(-1)!
  return {
    id: `engine.restore@depth${depth}`,
    samples: 2,
    measure: () => created(ours, { snapshotId }),
  }
}

async function created(ours: Ours, options: { image?: string; snapshotId?: string }): Promise<number> {
  let sandbox: Sandbox | undefined
  const ms = await timed(async () => {
    sandbox = await ours.create(options)
  })
  await ours.destroy(sandbox!)
  return ms
}

async function changed(ours: Ours, image: string): Promise<Sandbox> {
  const sandbox = await ours.create({ image })
  await sandbox.files.writeFile('changed', new Uint8Array(CHANGED_BYTES).fill(7))
  return sandbox
}

async function touch(sandbox: Sandbox): Promise<void> {
  await sandbox.start()
  await sandbox.files.writeFile('changed', new Uint8Array(CHANGED_BYTES).fill(7))
  await sandbox.stop()
}
