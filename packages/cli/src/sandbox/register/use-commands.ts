import type { Registering } from '../../daemon/register/registration.ts'
import { parseDuration, parseEnv } from '../../options.ts'
import { nameArgument } from './registration.ts'

export function addUseCommands({ program, act }: Registering): void {
  program
    .command('exec')
    .description('Run a command in a sandbox, and start the sandbox if it is stopped.')
    .showHelpAfterError('Put -- before the command, as in: sandkasten sandbox exec NAME -- ls -l')
    .argument(...nameArgument)
    .argument('<command...>', 'the program and its arguments; put -- before it')
    .option(
      '-e, --env <name=value>',
      'set a variable; a bare name takes the value from this machine (repeatable)',
      parseEnv,
    )
    .option('-w, --workdir <folder>', 'default: the project’s folder in the sandbox')
    .option('--timeout <time>', 'time limit, such as 90s or 30m', parseDuration)
    .option('-i, --interactive', 'keep stdin open (stdin is always forwarded unless it is a terminal)')
    .option('-t, --tty', 'allocate a terminal')
    .option('--thread <id>', 'use it for this thread')
    .action(act(async (name, command, options) => (await import('../exec.ts')).exec(name, command, options)))

  program
    .command('shell')
    .description('Open a terminal in a sandbox, and start the sandbox if it is stopped.')
    .argument(...nameArgument)
    .option('-e, --env <name=value>', 'set a variable (repeatable)', parseEnv)
    .option('-w, --workdir <folder>', 'default: the project’s folder in the sandbox')
    .option('--thread <id>', 'use it for this thread')
    .action(act(async (name, options) => (await import('../shell.ts')).shell(name, options)))

  program
    .command('cp')
    .description('Copy a file or folder into or out of a sandbox.')
    .argument('<from>', 'a path, NAME:path, or - for stdin')
    .argument('<to>', 'a path, NAME:path, or - for stdout; exactly one of the two is in a sandbox')
    .option('--json', 'for programs')
    .action(act(async (from, to, options) => (await import('../cp.ts')).cp(from, to, options)))

  program
    .command('url')
    .description('Print the address of a port in a sandbox.')
    .argument(...nameArgument)
    .argument('<port>')
    .option('--protocol <protocol>', 'http, https, ws or wss; default: http, with TLS if there is TLS')
    .option('--json', 'for programs: the address and the headers to send')
    .action(act(async (name, port, options) => (await import('../url.ts')).url(name, port, options)))
}
