export { storeError } from './errors.ts'
export type { ListedExec } from './execs.ts'
export type { SessionFilter, Usage } from './sessions.ts'
export { Store } from './store.ts'
export type {
  AuditRow,
  EventRow,
  ExecRow,
  FrontRow,
  KeyRow,
  PortRow,
  ProjectRow,
  SessionRow,
  SessionStatus,
  SnapshotRow,
} from './tables.ts'
