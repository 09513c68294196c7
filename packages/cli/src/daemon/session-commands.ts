import { Option } from 'commander'
import { parseDuration, parseEnv, parseLabel, parseNumber, parseSize } from '../options.ts'
import { type Registering, reaching, sessionArgument } from './register.ts'

const endActions = ['stop', 'snapshot-and-stop', 'pause', 'destroy']

export function addSessionCommands({ program, act }: Registering): void {
  const sessions = program.command('sessions').description('Sessions of the daemon: a sandbox each.')
  reaching(sessions.command('create').description('Create a session and print its id.'))
    .option('--name <name>')
    .option('--image <image>')
    .option('--snapshot <snapshot>', 'begin with a saved disk: its id or its name')
    .option('--ttl <time>', 'how long it may be idle: seconds, or such as 30m or 2h', parseDuration)
    .addOption(new Option('--on-idle <action>', 'what happens then').choices(endActions))
    .option('--lifetime <time>', 'how long it may run after each start', parseDuration)
    .addOption(new Option('--on-lifetime <action>', 'what happens then').choices(endActions))
    .option('--wake-on-use', 'start it when it is stopped and used')
    .option('--no-wake-on-use')
    .option('--label <key=value>', 'again for more', parseLabel)
    .option(
      '-e, --env <name=value>',
      'set a variable; only a name takes this machine’s value (again for more)',
      parseEnv,
    )
    .option('-m, --memory <size>', 'such as 512m or 2g', parseSize)
    .option('--cpus <number>', 'such as 0.5', parseNumber)
    .option('--pids <number>', 'processes at once', parseNumber)
    .option('--disk <size>', 'such as 500m or 10g', parseSize)
    .addOption(new Option('--network <network>', 'what it can reach').choices(['none', 'open']))
    .option('--idempotency-key <key>', 'a repeat with the same key finds the first session')
    .action(act(async (options) => (await import('./sessions.ts')).createSession(options)))
  reaching(sessions.command('list').alias('ls').description('Sessions that can be used.'))
    .option('--all', 'ended ones too')
    .option('--status <status,…>')
    .option('--name <name>')
    .option('--label <key=value>', 'again for more, all of which must match', parseLabel)
    .action(act(async (options) => (await import('./sessions.ts')).listSessions(options)))
  reaching(
    sessions
      .command('get')
      .argument(...sessionArgument)
      .description('One session.'),
  ).action(act(async (id, options) => (await import('./sessions.ts')).getSession(id, options)))
  const verbs = {
    start: 'Start sessions that are stopped, with their disks.',
    stop: 'End all that runs in them and keep their disks.',
    pause: 'Freeze them, with all that runs in them.',
    resume: 'Let them go on.',
  }
  for (const verb of Object.keys(verbs) as Array<keyof typeof verbs>)
    reaching(sessions.command(verb).argument('<session...>', 'ids or names').description(verbs[verb])).action(
      act(async (ids, options) => (await import('./sessions.ts')).turnSession(verb, ids, options)),
    )
  reaching(
    sessions
      .command('destroy')
      .alias('rm')
      .argument('<session...>', 'ids or names')
      .description('End sessions for good.'),
  ).action(act(async (ids, options) => (await import('./sessions.ts')).destroySession(ids, options)))
  reaching(
    sessions
      .command('extend')
      .argument(...sessionArgument)
      .argument('<time>', 'seconds, or such as 30m or 2h', parseDuration)
      .description('Keep a session for at least this time from now on.'),
  ).action(act(async (id, time, options) => (await import('./sessions.ts')).extendSession(id, time, options)))
  reaching(
    sessions
      .command('label')
      .argument(...sessionArgument)
      .argument('<change...>', 'key=value sets a label, key- removes it')
      .description('Change a session’s labels.'),
  ).action(
    act(async (id, changes, options) => (await import('./sessions.ts')).labelSession(id, changes, options)),
  )
  reaching(
    sessions
      .command('fork')
      .argument(...sessionArgument)
      .description('Make sessions with a copy of its disk; prints their ids.'),
  )
    .option('--count <number>', 'default: 1', parseNumber)
    .action(act(async (id, options) => (await import('./sessions.ts')).forkSession(id, options)))
  reaching(
    sessions
      .command('stats')
      .argument(...sessionArgument)
      .description('What its sandbox uses now.'),
  ).action(act(async (id, options) => (await import('./sessions.ts')).sessionStats(id, options)))
}
