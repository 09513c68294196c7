import { Option } from 'commander'
import { withNetworkOptions } from '../../network-option.ts'
import { parseDuration, parseEnv, parseLabel, parseNumber, parseSize } from '../../options.ts'
import { parseVolumeMount } from '../volume-option.ts'
import { addEgressCommands } from './egress-commands.ts'
import { type Registering, reaching, sessionArgument } from './registration.ts'

const endActions = ['stop', 'snapshot-and-stop', 'pause', 'destroy']

export function addSessionCommands({ program, act }: Registering): void {
  const sessions = program
    .command('sessions')
    .description('Manage sessions of the daemon; each has a sandbox.')
  withNetworkOptions(reaching(sessions.command('create').description('Create a session and print its id.')))
    .option('--name <name>')
    .option('--image <image>')
    .option('--runtime <runtime>', 'an image that has this program, such as node24 or python3.13')
    .option('--snapshot <snapshot>', 'start from a snapshot (id or name)')
    .option('--ttl <time>', 'maximum idle time: seconds, or a value such as 30m or 2h', parseDuration)
    .addOption(new Option('--on-idle <action>', 'action after the idle time').choices(endActions))
    .option('--lifetime <time>', 'maximum running time after each start', parseDuration)
    .addOption(new Option('--on-lifetime <action>', 'action after the lifetime').choices(endActions))
    .option('--wake-on-use', 'start a stopped session when it is used')
    .option('--no-wake-on-use')
    .option('--label <key=value>', 'repeatable', parseLabel)
    .option(
      '-e, --env <name=value>',
      'set a variable; a bare name takes the value from this machine (repeatable)',
      parseEnv,
    )
    .option('-m, --memory <size>', 'such as 512m or 2g', parseSize)
    .option('--cpus <number>', 'such as 0.5', parseNumber)
    .option('--pids <number>', 'maximum number of processes', parseNumber)
    .option('--disk <size>', 'such as 500m or 10g', parseSize)
    .option(
      '--volume <name:path[:ro]>',
      'mount a volume of the project, such as data:/data (repeatable)',
      parseVolumeMount,
    )
    .addOption(new Option('-u, --user <user>', 'root: commands are root of the sandbox').choices(['root']))
    .addOption(
      new Option('--tmp <place>', 'where /tmp is: kept on the disk, or empty after each start').choices([
        'disk',
        'memory',
      ]),
    )
    .option('--idempotency-key <key>', 'a repeat with the same key returns the first session')
    .action(act(async (options) => (await import('../manage/sessions.ts')).createSession(options)))
  reaching(sessions.command('list').alias('ls').description('List sessions.'))
    .option('--all', 'include ended sessions')
    .option('--status <status,…>')
    .option('--name <name>')
    .option('--subject <subject>', 'only sessions that tokens of this subject created')
    .option('--label <key=value>', 'only sessions with this label (repeatable; all must match)', parseLabel)
    .action(act(async (options) => (await import('../manage/sessions.ts')).listSessions(options)))
  reaching(
    sessions
      .command('get')
      .argument(...sessionArgument)
      .description('One session.'),
  ).action(act(async (id, options) => (await import('../manage/sessions.ts')).getSession(id, options)))
  const verbs = {
    start: 'Start stopped sessions with their disks.',
    stop: 'End all processes and keep the disks.',
    pause: 'Freeze sessions with their processes.',
    resume: 'Resume paused sessions.',
  }
  for (const verb of Object.keys(verbs) as Array<keyof typeof verbs>)
    reaching(sessions.command(verb).argument('<session...>', 'ids or names').description(verbs[verb])).action(
      act(async (ids, options) => (await import('../manage/sessions.ts')).turnSession(verb, ids, options)),
    )
  reaching(
    sessions
      .command('destroy')
      .alias('rm')
      .argument('<session...>', 'ids or names')
      .description('Destroy sessions permanently.'),
  ).action(act(async (ids, options) => (await import('../manage/sessions.ts')).destroySession(ids, options)))
  reaching(
    sessions
      .command('extend')
      .argument(...sessionArgument)
      .argument('<time>', 'seconds, or such as 30m or 2h', parseDuration)
      .description('Keep a session for at least this long from now.'),
  ).action(
    act(async (id, time, options) =>
      (await import('../manage/sessions.ts')).extendSession(id, time, options),
    ),
  )
  reaching(
    sessions
      .command('label')
      .argument(...sessionArgument)
      .argument('<change...>', 'key=value sets a label, key- removes it')
      .description('Change a session’s labels.'),
  ).action(
    act(async (id, changes, options) =>
      (await import('../manage/sessions.ts')).labelSession(id, changes, options),
    ),
  )
  reaching(
    sessions
      .command('fork')
      .argument(...sessionArgument)
      .description('Create sessions with a copy of the disk and print their ids.'),
  )
    .option('--count <number>', 'default: 1', parseNumber)
    .action(act(async (id, options) => (await import('../manage/sessions.ts')).forkSession(id, options)))
  reaching(
    sessions
      .command('stats')
      .argument(...sessionArgument)
      .description('Show the resource usage of a session.'),
  ).action(act(async (id, options) => (await import('../manage/sessions.ts')).sessionStats(id, options)))
  addEgressCommands(sessions, { act })
}
