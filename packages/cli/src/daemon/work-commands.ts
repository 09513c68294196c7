import { parseDuration, parseEnv, parseSize } from '../options.ts'
import { type Registering, reaching, sessionArgument } from './register.ts'

/** Commands that run something in a session: commands, shells, terminals, their output. */
export function addWorkCommands({ program, act }: Registering): void {
  reaching(
    program
      .command('exec')
      .description('Run a command in a session’s shell, which keeps its state.')
      .showHelpAfterError('Put -- before the command, as in: sandkasten exec SESSION -- ls -l')
      .argument(...sessionArgument)
      .argument('<command...>', 'a shell line, or a program and its arguments; put -- before it'),
  )
    .option('--shell <name>', 'a shell of the session; default: main')
    .option(
      '--timeout <time>',
      'end it after this time; default: SANDKASTEN_EXEC_TIMEOUT, or 1h',
      parseDuration,
    )
    .option('-d, --detach', 'run it beside the shells, print its id and leave it running')
    .option('--id <id>', 'an id to find it by; a repeat with the same id finds the first')
    .option('--stdin', 'with --detach: keep its stdin open for commands write')
    .option('--no-stdin', 'do not pass our stdin on')
    .option('-e, --env <name=value>', 'with --detach: set a variable (again for more)', parseEnv)
    .option('-w, --workdir <folder>', 'with --detach: where to run it; default: the main shell’s folder')
    .option('--max-output <size>', 'with --json: as much of the output as this', parseSize)
    .option('--buffer <size>', 'with --detach: as much of the output is kept', parseSize)
    .action(act(async (id, command, options) => (await import('./exec.ts')).exec(id, command, options)))

  reaching(
    program
      .command('logs')
      .description('What a command has written, to its end; without one, what happened to the session.')
      .argument(...sessionArgument)
      .argument('[command]', 'its id: see commands list'),
  )
    .option('-f, --follow', 'without a command: go on with what happens')
    .option('--after <number>', 'after this event')
    .action(act(async (id, command, options) => (await import('./logs.ts')).logs(id, command, options)))

  const commands = program.command('commands').description('Commands of a session: what runs and what ran.')
  const command = ['<command>', 'its id: see commands list'] as const
  reaching(
    commands
      .command('list')
      .alias('ls')
      .argument(...sessionArgument)
      .description('Commands, newest first.'),
  )
    .option('--limit <number>', 'default: 100')
    .action(act(async (id, options) => (await import('./execs.ts')).listCommands(id, options)))
  reaching(
    commands
      .command('get')
      .argument(...sessionArgument)
      .argument(...command)
      .description('One command.'),
  )
    .option('--wait <time>', 'wait so long for its end', parseDuration)
    .action(act(async (id, exec, options) => (await import('./execs.ts')).getCommand(id, exec, options)))
  reaching(
    commands
      .command('kill')
      .argument(...sessionArgument)
      .argument(...command)
      .description('Signal a command and everything that it started.'),
  )
    .option('-s, --signal <signal>', 'default: TERM')
    .action(act(async (id, exec, options) => (await import('./execs.ts')).killCommand(id, exec, options)))
  reaching(
    commands
      .command('write')
      .argument(...sessionArgument)
      .argument(...command)
      .description('Pass our stdin to a command that was started with exec --detach --stdin.'),
  )
    .option('--eof', 'and close its stdin after that')
    .action(act(async (id, exec, options) => (await import('./execs.ts')).writeCommand(id, exec, options)))

  const shells = program.command('shells').description('Shells of a session, beside main.')
  const shellName = ['<name>', 'the shell'] as const
  reaching(
    shells
      .command('list')
      .alias('ls')
      .argument(...sessionArgument)
      .description('Shells, and what runs in them.'),
  ).action(act(async (id, options) => (await import('./shells.ts')).listShells(id, options)))
  reaching(
    shells
      .command('open')
      .argument(...sessionArgument)
      .argument(...shellName)
      .description('Open a shell; exec --shell NAME uses it.'),
  )
    .option('-w, --workdir <folder>')
    .option('-e, --env <name=value>', 'set a variable (again for more)', parseEnv)
    .option('--login', 'read the profile of the sandbox’s user, as bash -l does')
    .option('--no-login', 'do not read it; default: as the daemon is configured')
    .action(act(async (id, name, options) => (await import('./shells.ts')).openShell(id, name, options)))
  reaching(
    shells
      .command('close')
      .argument(...sessionArgument)
      .argument(...shellName)
      .description('End a shell and what runs in it.'),
  ).action(act(async (id, name, options) => (await import('./shells.ts')).closeShell(id, name, options)))

  reaching(
    program
      .command('shell')
      .description('A terminal in a session. Ctrl-] leaves it and lets it go on.')
      .argument(...sessionArgument)
      .argument('[command...]', 'instead of a login shell; put -- before it'),
  )
    .option('--terminal <name>', 'one that you can come back to: found when it is there, else opened')
    .option('-a, --attach', 'come back to the newest that runs')
    .option('-w, --workdir <folder>', 'of a new terminal')
    .option('-e, --env <name=value>', 'of a new terminal: set a variable (again for more)', parseEnv)
    .option('--list', 'the session’s terminals')
    .option('--kill <name>', 'end a terminal and what runs in it')
    .action(act(async (id, command, options) => (await import('./shell.ts')).shell(id, command, options)))
}
