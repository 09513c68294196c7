import type { WorkReport } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { endings } from '../steer.ts'
import { openHere } from './open.ts'
import { report } from './report.ts'

export interface WorkOptions {
  once?: boolean
  json?: boolean
}

/** Does due work until a signal. Several processes can do this at once: each piece of work is done once. */
export async function work(options: WorkOptions): Promise<number> {
  await using opened = await openHere()
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  for (const signal of endings) process.on(signal, leave)
  const { signal } = leaving
  let failed = false
  const onReport = (one: WorkReport) => {
    failed ||= one.failed.length > 0
    tell(one, options)
  }
  try {
    if (options.once) onReport(await opened.registry.doDueWork({ signal }))
    else {
      if (process.stderr.isTTY) say('sandkasten: doing due work until Ctrl-C.')
      await opened.registry.work({ signal, onReport })
    }
  } catch (error) {
    if (!signal.aborted || !SandboxError.is(error, 'aborted')) throw error
  } finally {
    for (const signal of endings) process.off(signal, leave)
  }
  return options.once && failed ? 125 : 0
}

function tell({ done, failed }: WorkReport, { json }: WorkOptions): void {
  if (json) {
    const problems = failed.map(({ sandbox, error }) => ({
      sandbox,
      code: SandboxError.is(error) ? error.code : undefined,
      message: error instanceof Error ? error.message : String(error),
    }))
    if (done.length + failed.length > 0)
      console.log(JSON.stringify({ at: new Date(), done, failed: problems }))
    return
  }
  for (const { sandbox, action } of done) console.log(`${new Date().toISOString()} ${sandbox} ${action}`)
  for (const { error } of failed) report(error)
}
