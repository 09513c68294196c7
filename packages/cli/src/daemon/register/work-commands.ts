import { parseDuration, parseEnv, parseSize } from '../../options.ts'
import { type Registering, reaching, sessionArgument } from './registration.ts'

/** Registers commands that run something in a session: commands, shells, terminals and their output. */
export function addWorkCommands({ program, act }: Registering): void {
  reaching(
    program
      .command('exec')
      .description('Run a command in a session’s shell, which keeps its state.')
      .showHelpAfterError('Put -- before the command, as in: sandkasten exec SESSION -- ls -l')
      .argument(...sessionArgument)
      .argument('<command...>', 'a shell line, or a program and its arguments; put -- before it'),
  )
    .option('--shell <name>', 'the shell to use; default: main')
    .option('--timeout <time>', 'time limit; default: SANDKASTEN_EXEC_TIMEOUT, or 1h', parseDuration)
    .option('-d, --detach', 'run the command beside the shells, print its id and leave it running')
    .option('--id <id>', 'an id for the command; a repeat with the same id returns the first')
    .option('--stdin', 'with --detach: keep stdin open for commands write')
    .option('--no-stdin', 'do not forward stdin')
    .option('-e, --env <name=value>', 'with --detach: set a variable (repeatable)', parseEnv)
    .option('-w, --workdir <folder>', 'with --detach: the working folder; default: the main shell’s folder')
    .option('--max-output <size>', 'with --json: maximum size of the output', parseSize)
    .option('--buffer <size>', 'with --detach: amount of output to keep', parseSize)
    .action(
      act(async (id, command, options) => (await import('../in-session/exec.ts')).exec(id, command, options)),
    )

  reaching(
    program
      .command('logs')
      .description(
        'Print the output of a command until it ends; without a command, the events of the session.',
      )
      .argument(...sessionArgument)
      .argument('[command]', 'command id, see commands list'),
  )
    .option('-f, --follow', 'without a command: wait for new events and print them')
    .option('--after <number>', 'only events after this number')
    .action(
      act(async (id, command, options) => (await import('../in-session/logs.ts')).logs(id, command, options)),
    )

  const commands = program
    .command('commands')
    .description('Manage running and finished commands of a session.')
  const command = ['<command>', 'command id, see commands list'] as const
  reaching(
    commands
      .command('list')
      .alias('ls')
      .argument(...sessionArgument)
      .description('List commands, newest first.'),
  )
    .option('--limit <number>', 'default: 100')
    .action(act(async (id, options) => (await import('../in-session/execs.ts')).listCommands(id, options)))
  reaching(
    commands
      .command('get')
      .argument(...sessionArgument)
      .argument(...command)
      .description('One command.'),
  )
    .option('--wait <time>', 'wait this long for the command to end', parseDuration)
    .action(
      act(async (id, exec, options) =>
        (await import('../in-session/execs.ts')).getCommand(id, exec, options),
      ),
    )
  reaching(
    commands
      .command('kill')
      .argument(...sessionArgument)
      .argument(...command)
      .description('Signal a command and its descendants.'),
  )
    .option('-s, --signal <signal>', 'default: TERM')
    .action(
      act(async (id, exec, options) =>
        (await import('../in-session/execs.ts')).killCommand(id, exec, options),
      ),
    )
  reaching(
    commands
      .command('write')
      .argument(...sessionArgument)
      .argument(...command)
      .description('Send stdin to a command that was started with exec --detach --stdin.'),
  )
    .option('--eof', 'then close its stdin')
    .action(
      act(async (id, exec, options) =>
        (await import('../in-session/execs.ts')).writeCommand(id, exec, options),
      ),
    )

  const shells = program.command('shells').description('Manage shells of a session besides main.')
  const shellName = ['<name>', 'the shell'] as const
  reaching(
    shells
      .command('list')
      .alias('ls')
      .argument(...sessionArgument)
      .description('List shells and their running commands.'),
  ).action(act(async (id, options) => (await import('../in-session/shells.ts')).listShells(id, options)))
  reaching(
    shells
      .command('open')
      .argument(...sessionArgument)
      .argument(...shellName)
      .description('Open a shell; exec --shell NAME uses it.'),
  )
    .option('-w, --workdir <folder>')
    .option('-e, --env <name=value>', 'set a variable (repeatable)', parseEnv)
    .option('--login', 'read the profile of the sandbox’s user, like bash -l')
    .option('--no-login', 'do not read the profile; default: as configured in the daemon')
    .action(
      act(async (id, name, options) =>
        (await import('../in-session/shells.ts')).openShell(id, name, options),
      ),
    )
  reaching(
    shells
      .command('close')
      .argument(...sessionArgument)
      .argument(...shellName)
      .description('Close a shell and end its programs.'),
  ).action(
    act(async (id, name, options) => (await import('../in-session/shells.ts')).closeShell(id, name, options)),
  )

  reaching(
    program
      .command('shell')
      .description('Open a terminal in a session. Ctrl-] detaches and leaves it running.')
      .argument(...sessionArgument)
      .argument('[command...]', 'program to run instead of a login shell; put -- before it'),
  )
    .option('--terminal <name>', 'name of the terminal; attaches to it if it runs, otherwise opens it')
    .option('-a, --attach', 'attach to the newest running terminal')
    .option('-w, --workdir <folder>', 'working folder of a new terminal')
    .option('-e, --env <name=value>', 'for a new terminal: set a variable (repeatable)', parseEnv)
    .option('--list', 'list the session’s terminals')
    .option('--kill <name>', 'end a terminal and its programs')
    .action(
      act(async (id, command, options) =>
        (await import('../in-session/shell.ts')).shell(id, command, options),
      ),
    )
}
