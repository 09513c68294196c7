/** The client of the runner, which starts and supervises the programs of a sandbox, and a driver over that client. */

export type { CallOptions } from './calls.ts'
export * from './client.ts'
export { type ConnectOptions, RunnerConnection, type Welcome } from './connection.ts'
export type { ProcessHost } from './driver/process.ts'
export { RunnerPrograms } from './driver/programs.ts'
export { ProtocolError } from './errors.ts'
export * from './files.ts'
export type { ListeningPort, PortsChange } from './ports.ts'
export {
  type AttachOptions,
  type LaunchOptions,
  type OutputEvent,
  type ProcessExit,
  type ProcessLimits,
  type ReadOptions,
  RunnerProcess,
  type StartOptions,
  type TaskInfo,
  TaskOutput,
} from './processes.ts'
export {
  type CommandOptions,
  type CommandResult,
  type OpenShellOptions,
  RunnerShell,
  type ShellInfo,
} from './shells.ts'
