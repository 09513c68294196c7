import { type Command, Option } from 'commander'
import { parseEnv, parseSize } from '../options.ts'
import type { UpSetup } from './up.ts'
import { addWorkCommands } from './work-commands.ts'

/** The daemon's commands. What they do is loaded when one is used: `sandkasten run` needs none of it. */
export function addDaemonCommands(program: Command, finish: (code: number) => void, setup?: UpSetup): void {
  const act =
    <A extends unknown[]>(run: (...args: A) => Promise<number>) =>
    async (...args: A) =>
      finish(await run(...args))

  const up = program
    .command('up')
    .description('Run the daemon: stateful sandboxes over HTTP.')
    .option('-c, --config <file>', 'default: sandkasten.yaml here, if there is one')
    .option('--listen <address:port>')
    .option('--data-dir <folder>', 'sandboxes, database, identity')
    .addOption(new Option('--isolator <isolator>').choices(['auto', 'oci', 'docker', 'process']))
    .option('--runtime <program>', 'for oci: crun (the default), runc or a path to one')
    .option(
      '--accept-no-isolation',
      'for code that you trust: run without isolation where nothing can isolate',
    )
    .addOption(
      new Option('--log-format <format>', 'default: text on a terminal, else json').choices([
        'auto',
        'text',
        'json',
      ]),
    )
    .option('--json', 'say where it listens as one line of JSON')
    .action(act(async (options) => (await import('./up.ts')).up(options, setup)))
  if (setup) up.option('--yes', 'install what is missing without asking')

  const config = program.command('config').description('The daemon’s configuration.')
  config
    .command('check')
    .description('Check it and print what is in force, secrets masked.')
    .option('-c, --config <file>')
    .option('--json', 'for programs')
    .action(act(async (options) => (await import('./config.ts')).checkConfig(options)))

  const keys = program.command('keys').description('API keys of the daemon.')
  reaching(
    keys.command('create').argument('<name>', 'for people').description('Make a key; it is shown once.'),
  )
    .addOption(new Option('--scope <scope...>', 'default: exec').choices(['read', 'exec', 'admin']))
    .option('--project <id>', 'for the operator: of another project')
    .option('--expires <seconds>', 'a key for a while', Number)
    .action(act(async (name, options) => (await import('./keys.ts')).createKey(name, options)))
  reaching(keys.command('list').description('Keys, without the keys themselves.'))
    .option('--project <id>')
    .action(act(async (options) => (await import('./keys.ts')).listKeys(options)))
  reaching(keys.command('revoke').argument('<id>').description('Revoke a key, at once.'))
    .option('--project <id>')
    .action(act(async (id, options) => (await import('./keys.ts')).revokeKey(id, options)))

  reaching(program.command('status').description('Whether the daemon works, and what is in use.')).action(
    act(async (options) => (await import('./sessions.ts')).status(options)),
  )

  const sessions = program.command('sessions').description('Sessions of the daemon.')
  reaching(sessions.command('create').description('Create a session and print its id.'))
    .option('--name <name>')
    .option('--image <image>')
    .option('--snapshot <id>', 'begin with a saved disk')
    .option('--ttl <seconds>', 'how long it may be idle', Number)
    .option(
      '-e, --env <name=value>',
      'set a variable; only a name takes this machine’s value (again for more)',
      parseEnv,
      {},
    )
    .option('-m, --memory <size>', 'such as 512m or 2g', parseSize)
    .option('--cpus <number>', 'such as 0.5', Number)
    .action(act(async (options) => (await import('./sessions.ts')).createSession(options)))
  reaching(sessions.command('list').description('Sessions that can be used.'))
    .option('--all', 'ended ones too')
    .option('--status <status,…>')
    .action(act(async (options) => (await import('./sessions.ts')).listSessions(options)))
  reaching(sessions.command('get').argument('<id>').description('One session.')).action(
    act(async (id, options) => (await import('./sessions.ts')).getSession(id, options)),
  )
  const verbs = {
    start: 'Start sessions that are stopped, with their disks.',
    stop: 'End all that runs in them and keep their disks.',
    pause: 'Freeze them, with all that runs in them.',
    resume: 'Let them go on.',
  }
  for (const verb of Object.keys(verbs) as Array<keyof typeof verbs>)
    reaching(sessions.command(verb).argument('<id...>', 'ids or names').description(verbs[verb])).action(
      act(async (ids, options) => (await import('./sessions.ts')).turnSession(verb, ids, options)),
    )
  reaching(sessions.command('destroy').argument('<id...>').description('End sessions for good.')).action(
    act(async (ids, options) => (await import('./sessions.ts')).destroySession(ids, options)),
  )

  reaching(
    program
      .command('exec')
      .description('Run a command in a session’s shell, which keeps its state.')
      .argument('<id>', 'the session: its id or its name')
      .argument('<command...>', 'a shell line, or a program and its arguments; put -- before it'),
  )
    .option('--shell <name>', 'default: main')
    .option('--timeout <seconds>', 'end it after this time', Number)
    .action(act(async (id, command, options) => (await import('./exec.ts')).exec(id, command, options)))
  addWorkCommands(program, reaching, finish)
}

/** Options of every command that talks to a daemon. */
function reaching(command: Command): Command {
  return command
    .option('--url <url>', 'default: SANDKASTEN_URL, or the daemon of this machine')
    .option('-c, --config <file>', 'to find the daemon of this machine')
    .option('--json', 'for programs')
}
