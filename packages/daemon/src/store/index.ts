export type { ListedExec } from './execs.ts'
export { inlinePrefix, type SecretFacts } from './secrets.ts'
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
  SecretRow,
  SessionRow,
  SessionStatus,
  SnapshotRow,
  VolumeRow,
  VolumeState,
} from './tables.ts'
export { type CheckVolumes, type SessionVolume, type VolumeUsage, volumesOf } from './volumes.ts'
