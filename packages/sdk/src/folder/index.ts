/** Bookkeeping for providers whose sandboxes are folders on this machine, shared between processes. */
export { FolderDriver } from './driver.ts'
export { errnoOf, guarded, translate } from './errors.ts'
export { hostPrograms, needHostRuntime } from './host-programs.ts'
export { sweepLocks, withLock } from './lock.ts'
export {
  identityOf,
  isAlive,
  isDamaged,
  type ProcessIdentity,
  readRecord,
  replaceFile,
  type SandboxRecord,
  writeRecord,
} from './record.ts'
export { removeFolder } from './remove.ts'
