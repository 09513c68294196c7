/** The client of the daemon's HTTP API. Loads in browsers and Workers. */
export { errorTable, SandboxError, type SandboxErrorCode } from '../errors.ts'
export { SandboxClient } from './client.ts'
export { Command } from './command.ts'
export type { ConnectionOptions } from './connection.ts'
export { SessionFiles } from './files.ts'
export { Session } from './session.ts'
export { SessionTerminal } from './terminal.ts'
export type * from './types.ts'
