/** The client of the runner: PID 1 of every sandbox of the engine's, and on SSH hosts the parent of a sandbox's programs. */

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
