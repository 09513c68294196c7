import type { Command } from 'commander'

/** How the groups of commands are added to the program. */
export interface Registering {
  program: Command
  /** An action whose number is the exit code. */
  act<A extends unknown[]>(run: (...args: A) => Promise<number>): (...args: A) => Promise<void>
}

/** Options of every command that talks to a daemon. */
export function reaching(command: Command): Command {
  return command
    .option('--url <url>', 'default: SANDKASTEN_URL, or the daemon of this machine')
    .option('-c, --config <file>', 'to find the daemon of this machine')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
}

export const sessionArgument = ['<session>', 'its id or its name'] as const
