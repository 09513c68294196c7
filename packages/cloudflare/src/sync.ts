import { withLock } from './apply/lock.ts'
import { ChangedMeanwhile } from './apply/write.ts'
import { findConfig } from './config-file.ts'
import { commit, type Prepared, prepare, rootOf, type SyncOptions, type SyncResult } from './prepare.ts'
import { CloudflareSyncError, type Problem } from './problem.ts'

/** Updates the config from the files. On an error, throws and writes nothing. */
export async function sync(options: SyncOptions = {}): Promise<SyncResult> {
  // Usually there is nothing to change. Then no lock is taken, so a read-only checkout builds and no watcher wakes.
  const looked = await check(options)
  const { path } = findConfig(rootOf(options), options.config)
  if (!looked.changed || !path) return looked
  return withLock(path, () => {
    for (let attempt = 1; ; attempt++) {
      const prepared = prepare(options)
      try {
        return resultOf(prepared, commit(prepared))
      } catch (error) {
        if (!(error instanceof ChangedMeanwhile)) throw error
        if (attempt === 5) throw new CloudflareSyncError([busy(prepared.configFile)])
      }
    }
  })
}

export async function check(options: SyncOptions = {}): Promise<SyncResult> {
  return resultOf(prepare(options), false)
}

export function resultOf(prepared: Prepared, written: boolean): SyncResult {
  const {
    config: _config,
    after: _after,
    recordAfter: _record,
    recordChanged: _changed,
    ...result
  } = prepared
  return { ...result, written }
}

function busy(file = 'the config'): Problem {
  const message = 'another program kept changing this file during the write'
  return { severity: 'error', code: 'busy', message, place: { file }, fix: 'run sync again' }
}
