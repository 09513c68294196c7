import { print } from '../table.ts'
import { interruptible } from './interrupt.ts'
import { openHere } from './open.ts'
import { withSteps } from './steps.ts'

export interface SnapshotOptions {
  name?: string
  force?: boolean
  json?: boolean
}

export async function snapshot(name: string, options: SnapshotOptions): Promise<number> {
  await using opened = await openHere()
  const saved = await interruptible((signal) =>
    withSteps((onProgress) =>
      opened.sandboxes.snapshot(name, {
        snapshotName: options.name,
        force: options.force,
        signal,
        onProgress,
      }),
    ),
  )
  print(options.json, saved, () => saved.snapshotId)
  return 0
}
