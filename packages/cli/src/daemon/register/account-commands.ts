import { type Command, Option } from 'commander'
import { parseDuration, parseNumber, parseSize } from '../../options.ts'
import { type Registering, reaching } from './registration.ts'

export function addAccountCommands({ program, act }: Registering): void {
  const keys = program.command('keys').description('API keys of the daemon.')
  reaching(
    keys.command('create').argument('<name>', 'for people').description('Create a key. It is shown once.'),
  )
    .addOption(
      new Option('--scope <scope...>', 'default: exec').choices(['read', 'exec', 'admin', 'secrets']),
    )
    .option('--project <id>', 'operator only: the project of the key')
    .option('--expires <time>', 'lifetime of the key: seconds, or a value such as 12h or 30d', parseDuration)
    .action(act(async (name, options) => (await import('../manage/keys.ts')).createKey(name, options)))
  reaching(keys.command('list').alias('ls').description('List keys, without their secrets.'))
    .option('--project <id>')
    .action(act(async (options) => (await import('../manage/keys.ts')).listKeys(options)))
  reaching(keys.command('revoke').argument('<id>').description('Revoke a key immediately.'))
    .option('--project <id>')
    .action(act(async (id, options) => (await import('../manage/keys.ts')).revokeKey(id, options)))

  const projects = program
    .command('projects')
    .description('Manage projects and their quotas (operator only).')
  const quotas = (command: Command) =>
    reaching(command)
      .option('--sessions <number>', 'maximum number of live sessions', parseNumber)
      .option('--cpus <number>', 'maximum for all running sessions together', parseNumber)
      .option('-m, --memory <size>', 'maximum for all running sessions together', parseSize)
      .option('--disk <size>', 'maximum for all live sessions together', parseSize)
      .option('--snapshots <number>', 'maximum number of snapshots', parseNumber)
      .option('--snapshot-disk <size>', 'maximum for all snapshots together', parseSize)
      .option('--volumes <number>', 'maximum number of volumes', parseNumber)
      .option('--volume-disk <size>', 'maximum for all volumes together', parseSize)
  quotas(
    projects.command('create').argument('<name>').description('Create a project and print its id.'),
  ).action(act(async (name, options) => (await import('../manage/projects.ts')).createProject(name, options)))
  reaching(projects.command('list').alias('ls').description('All projects.')).action(
    act(async (options) => (await import('../manage/projects.ts')).listProjects(options)),
  )
  quotas(projects.command('quotas').argument('<id>').description('Set the quotas of a project.'))
    .option('--default', 'use the quotas of the configuration')
    .action(act(async (id, options) => (await import('../manage/projects.ts')).setQuotas(id, options)))

  const policy = projects.command('policy').description('What sessions of a project may use.')
  reaching(policy.command('get').argument('<id>').description('The policy of a project.')).action(
    act(async (id, options) => (await import('../manage/policies.ts')).getPolicy(id, options)),
  )
  reaching(
    policy
      .command('set')
      .argument('<id>')
      .description('Replace the policy of a project. It applies to the next create, start and fork.'),
  )
    .option('--image <pattern...>', 'allowed images; * stands for any text, as in python:*')
    .addOption(new Option('--network <mode...>', 'allowed networks').choices(['none', 'open', 'policy']))
    .option('--host <rule...>', 'what network policies may name, such as *.example.com or preset:github')
    .option('--service <name...>', 'services of the daemon that network policies may name')
    .option('--cpus <number>', 'maximum of one session', parseNumber)
    .option('-m, --memory <size>', 'maximum of one session', parseSize)
    .option('--pids <number>', 'maximum of one session', parseNumber)
    .option('--disk <size>', 'maximum of one session', parseSize)
    .option('--max-ttl <time>', 'longest idle time', parseDuration)
    .option('--max-lifetime <time>', 'longest time since a start', parseDuration)
    .option('--pool <pattern...>', 'images whose pooled sandboxes the project may take')
    .option('--no-pool', 'take no pooled sandboxes')
    .option('--clear', 'remove the policy')
    .action(act(async (id, options) => (await import('../manage/policies.ts')).setPolicy(id, options)))

  reaching(program.command('events').description('List the events of the project.'))
    .option('-f, --follow', 'wait for new events and print them')
    .option('--session <session>', 'only events of this session (id or name)')
    .option('--after <number>', 'only events after this number')
    .option('--limit <number>', 'maximum number of events')
    .action(act(async (options) => (await import('../manage/records.ts')).showEvents(options)))
  reaching(program.command('audit').description('List the audit log of the project, newest first.'))
    .option('--before <number>', 'only entries before this one')
    .option('--limit <number>', 'default: 100')
    .action(act(async (options) => (await import('../manage/records.ts')).audit(options)))
  reaching(
    program.command('metrics').description('Print the daemon’s metrics in the Prometheus format.'),
  ).action(act(async (options) => (await import('../manage/status.ts')).metrics(options)))
}
