import { existsSync } from 'node:fs'
import { locateRunner } from '@sandkasten/engine'

/** The reason why isolated sandboxes are not available, or undefined. */
export async function isolationMissing(): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'isolated sandboxes need root on Linux'
  if (!['/usr/bin/crun', '/usr/local/bin/crun'].some((file) => existsSync(file)))
    return 'crun is not installed'
  return locateRunner().then(
    () => undefined,
    () => 'the runner cannot be built here',
  )
}
