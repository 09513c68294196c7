/** For providers that keep sandboxes as folders of this machine: their bookkeeping, shared between processes. */
export { FolderDriver } from './driver.ts'
export { errnoOf, guarded, translate } from './errors.ts'
export {
  identityOf,
  isAlive,
  type ProcessIdentity,
  replaceFile,
  type SandboxRecord,
  withLock,
} from './record.ts'
export { removeFolder } from './remove.ts'
