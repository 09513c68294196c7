import { forEach } from '../daemon/each.ts'
import { interruptible } from './interrupt.ts'
import { openHere } from './open.ts'
import { reportItem } from './report.ts'
import { withSteps } from './steps.ts'

export interface StartOptions {
  json?: boolean
}

export async function start(names: readonly string[], options: StartOptions): Promise<number> {
  await using opened = await openHere()
  return await forEach(
    names,
    options,
    async (name) => {
      const { record } = await interruptible((signal) =>
        withSteps((onProgress) => opened.sandboxes.start(name, { signal, onProgress })),
      )
      return { facts: record, text: `${record.name} ${record.status}` }
    },
    reportItem,
  )
}
