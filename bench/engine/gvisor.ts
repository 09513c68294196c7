/** Finds a working gVisor: the installed one, or the one that `scripts/prepare.ts` downloaded for the tests. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { locateRunner, OciIsolator } from '@sandkasten/engine'

const fetched = fileURLToPath(
  new URL('../../node_modules/.cache/sandkasten-tools/usr/bin/runsc', import.meta.url),
)

/** Its path, or the reason why it is missing. Only a trial shows whether one works. */
export async function findGvisor(): Promise<{ runtime: string } | { missing: string }> {
  const runner = await locateRunner()
  let missing = ''
  for (const runtime of [...(existsSync(fetched) ? [fetched] : []), 'runsc']) {
    const isolator = new OciIsolator({ runner, runtime })
    const result = await isolator.probe().finally(() => isolator.close())
    if (result.ok) return { runtime }
    missing = result.reason
  }
  return { missing }
}
