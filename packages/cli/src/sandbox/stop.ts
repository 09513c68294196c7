import { forEach } from '../daemon/each.ts'
import { interruptible } from './interrupt.ts'
import { openHere } from './open.ts'
import { reportItem } from './report.ts'
import { withSteps } from './steps.ts'

export interface StopOptions {
  force?: boolean
  json?: boolean
}

export async function stop(names: readonly string[], { force, ...options }: StopOptions): Promise<number> {
  await using opened = await openHere()
  return await forEach(
    names,
    options,
    async (name) => {
      const record = await interruptible((signal) =>
        withSteps((onProgress) => opened.sandboxes.stop(name, { force, signal, onProgress })),
      )
      return { facts: record, text: `${record.name} ${record.status}` }
    },
    reportItem,
  )
}
