import { type Command, Option } from 'commander'
import { parseDuration, parseNumber, parseSize } from '../options.ts'
import { type Registering, reaching } from './register.ts'

/** Commands for keys, projects, events, the audit log and metrics. */
export function addAccountCommands({ program, act }: Registering): void {
  const keys = program.command('keys').description('API keys of the daemon.')
  reaching(
    keys.command('create').argument('<name>', 'for people').description('Make a key; it is shown once.'),
  )
    .addOption(new Option('--scope <scope...>', 'default: exec').choices(['read', 'exec', 'admin']))
    .option('--project <id>', 'for the operator: of another project')
    .option('--expires <time>', 'a key for a while: seconds, or such as 12h or 30d', parseDuration)
    .action(act(async (name, options) => (await import('./keys.ts')).createKey(name, options)))
  reaching(keys.command('list').alias('ls').description('Keys, without the keys themselves.'))
    .option('--project <id>')
    .action(act(async (options) => (await import('./keys.ts')).listKeys(options)))
  reaching(keys.command('revoke').argument('<id>').description('Revoke a key, at once.'))
    .option('--project <id>')
    .action(act(async (id, options) => (await import('./keys.ts')).revokeKey(id, options)))

  const projects = program.command('projects').description('Projects and their quotas, for the operator.')
  const quotas = (command: Command) =>
    reaching(command)
      .option('--sessions <number>', 'live sessions at once', parseNumber)
      .option('--cpus <number>', 'of all running sessions', parseNumber)
      .option('-m, --memory <size>', 'of all running sessions', parseSize)
      .option('--disk <size>', 'of all live sessions', parseSize)
      .option('--snapshots <number>', 'snapshots that are kept', parseNumber)
      .option('--snapshot-disk <size>', 'of all snapshots', parseSize)
  quotas(projects.command('create').argument('<name>').description('Make a project; prints its id.')).action(
    act(async (name, options) => (await import('./projects.ts')).createProject(name, options)),
  )
  reaching(projects.command('list').alias('ls').description('All projects.')).action(
    act(async (options) => (await import('./projects.ts')).listProjects(options)),
  )
  quotas(projects.command('quotas').argument('<id>').description('Give a project quotas of its own.'))
    .option('--default', 'those of the configuration')
    .action(act(async (id, options) => (await import('./projects.ts')).setQuotas(id, options)))

  reaching(program.command('events').description('What happened in the project.'))
    .option('-f, --follow', 'go on with what happens')
    .option('--session <session>', 'of one session: its id or its name')
    .option('--after <number>', 'after this event')
    .option('--limit <number>', 'no more than these')
    .action(act(async (options) => (await import('./records.ts')).showEvents(options)))
  reaching(program.command('audit').description('Who did what in the project, newest first.'))
    .option('--before <number>', 'before this entry')
    .option('--limit <number>', 'default: 100')
    .action(act(async (options) => (await import('./records.ts')).audit(options)))
  reaching(program.command('metrics').description('The daemon’s metrics, as Prometheus reads them.')).action(
    act(async (options) => (await import('./status.ts')).metrics(options)),
  )
}
