/** The client of the runner that is PID 1 of every sandbox. */

export type { CallOptions } from './calls.ts'
export * from './client.ts'
export { type ConnectOptions, RunnerConnection, type Welcome } from './connection.ts'
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
