export * from './config-entry.ts'
export { type Daemon, type DaemonOptions, engineOptions, startDaemon } from './daemon.ts'
export type { DaemonProvider } from './sessions/index.ts'
export { version } from './version.ts'
