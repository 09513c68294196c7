import type { Command } from 'commander'

/** Passed to each module that registers commands. */
export interface Registering {
  program: Command
  /** Wraps an action whose result is the exit code. */
  act<A extends unknown[]>(run: (...args: A) => Promise<number>): (...args: A) => Promise<void>
}

/** Adds the options of every command that talks to a daemon. */
export function reaching(command: Command): Command {
  return command
    .option('--url <url>', 'default: SANDKASTEN_URL, or the daemon of this machine')
    .option('-c, --config <file>', 'configuration used to find the daemon of this machine')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
}

export const sessionArgument = ['<session>', 'id or name'] as const
