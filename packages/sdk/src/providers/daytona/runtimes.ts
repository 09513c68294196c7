import type { CreateSpec } from '../../core/driver.ts'
import { checkRuntimes, mappedRuntime } from '../../shared/runtime.ts'
import type { DaytonaProviderOptions, DaytonaRuntime } from './options.ts'

export type DaytonaRuntimes = Readonly<Record<string, DaytonaRuntime>>

/** The vendor has no runtimes, but takes images. Its default snapshot has versions that it does not promise. */
const publicImages: DaytonaRuntimes = {
  node24: { image: 'node:24' },
  node22: { image: 'node:22' },
  'python3.13': { image: 'python:3.13' },
}

/** The option `runtimes`, checked. */
export function runtimesOf({ runtimes }: DaytonaProviderOptions): DaytonaRuntimes {
  if (runtimes === undefined) return publicImages
  return checkRuntimes(runtimes, 'daytona', (value) =>
    typeof value === 'object' && value !== null ? (value as { image?: unknown }).image : value,
  )
}

/** What a new sandbox starts from. */
export function programsOf(
  { image, snapshotId, runtime }: Pick<CreateSpec, 'image' | 'snapshotId' | 'runtime'>,
  runtimes: DaytonaRuntimes,
): { image?: string | undefined; snapshot?: string | undefined } {
  if (runtime === undefined) return { image, snapshot: snapshotId }
  const mapped = mappedRuntime('daytona', runtime, runtimes, 'snapshot or an image')
  return typeof mapped === 'string' ? { snapshot: mapped } : { image: mapped.image }
}
