import type { SandboxRecord, ScopedRegistry } from '@sandkasten/registry'
import { forEach } from '../daemon/each.ts'
import { say } from '../errors.ts'
import { type Asking, canAsk, permitted } from './ask.ts'
import { interruptible } from './interrupt.ts'
import { openHere } from './open.ts'
import { reportItem } from './report.ts'
import { useText } from './show.ts'
import { withSteps } from './steps.ts'

export interface DestroyOptions extends Asking {
  force?: boolean
}

/** Destroys each sandbox. On a terminal, the question names who is interrupted; a script needs --force for that. */
export async function destroy(names: readonly string[], options: DestroyOptions): Promise<number> {
  await using opened = await openHere()
  return await forEach(names, options, (name) => destroyOne(opened.sandboxes, name, options), reportItem)
}

async function destroyOne(
  sandboxes: ScopedRegistry,
  name: string,
  options: DestroyOptions,
): Promise<{ facts: object; text: string }> {
  const record = await sandboxes.get(name)
  const asks = canAsk(options)
  if (!(await permitted(questionOf(record), options)))
    return { facts: { name: record.name, destroyed: false }, text: `${record.name} stays` }
  const { existed, threads, snapshotId } = await interruptible((signal) =>
    withSteps((onProgress) =>
      sandboxes.destroy(record.name, { force: asks || options.force, signal, onProgress }),
    ),
  )
  if (snapshotId !== undefined && !options.json)
    say(
      `The snapshot ${snapshotId} stays at ${record.provider}.\n  Delete it: sandkasten sandbox snapshots --remove ${snapshotId} --provider ${record.provider}`,
    )
  return {
    facts: { name: record.name, destroyed: true, existed, threads, snapshotId },
    text: `${record.name} ${existed ? 'destroyed' : 'was already gone at the provider, and is removed from the list'}`,
  }
}

function questionOf(record: SandboxRecord): string {
  const threads = record.threads.length > 0 ? ` Threads: ${record.threads.join(', ')}.` : ''
  const uses =
    record.uses.length > 0 ? ` In use by ${record.uses.map((use) => useText(use)).join('; ')}.` : ''
  return `Destroy ${record.name} (${record.provider}) and its disk?${threads}${uses}`
}
