import { Option } from 'commander'
import { parseDuration } from '../options.ts'
import { type Registering, reaching, sessionArgument } from './register.ts'

/** Ports and snapshots of sessions. */
export function addPortCommands({ program, act }: Registering): void {
  const ports = program.command('ports').description('Ports of a session that can be reached from outside.')
  reaching(
    ports
      .command('list')
      .alias('ls')
      .argument(...sessionArgument)
      .description('Open ports, and those on which something listens.'),
  ).action(act(async (id, options) => (await import('./ports.ts')).listPorts(id, options)))
  reaching(
    ports
      .command('get')
      .argument(...sessionArgument)
      .argument('<port>')
      .description('One open port.'),
  ).action(act(async (id, port, options) => (await import('./ports.ts')).getPort(id, port, options)))
  reaching(
    ports
      .command('open')
      .argument(...sessionArgument)
      .argument('<port>')
      .description('Open a port, or change who may reach it.'),
  )
    .addOption(
      new Option('--visibility <who>', 'private: keys and links').choices(['private', 'token', 'public']),
    )
    .option('--wake', 'a visit starts a stopped session')
    .option('--rotate', 'a new token; links made so far end')
    .action(act(async (id, port, options) => (await import('./ports.ts')).openPort(id, port, options)))
  reaching(
    ports
      .command('close')
      .argument(...sessionArgument)
      .argument('<port>')
      .description('Close a port; connections are cut.'),
  ).action(act(async (id, port, options) => (await import('./ports.ts')).closePort(id, port, options)))
  reaching(
    ports
      .command('link')
      .argument(...sessionArgument)
      .argument('<port>')
      .description('A link that needs no key and ends by itself.'),
  )
    .option('--expires <time>', 'seconds, or such as 10m; default: 1h', parseDuration)
    .option('--path <path>', 'default: /')
    .action(act(async (id, port, options) => (await import('./ports.ts')).linkPort(id, port, options)))

  const snapshot = program.command('snapshot').description('Saved disks of sessions.')
  const named = ['<snapshot...>', 'ids or names'] as const
  reaching(
    snapshot
      .command('create')
      .argument(...sessionArgument)
      .description('Save its disk; prints the snapshot’s id.'),
  )
    .option('--name <name>')
    .action(act(async (id, options) => (await import('./snapshots.ts')).createSnapshot(id, options)))
  reaching(snapshot.command('list').alias('ls').description('Snapshots of the project.'))
    .option('--session <session>', 'of one session: its id or its name')
    .action(act(async (options) => (await import('./snapshots.ts')).listSnapshots(options)))
  reaching(
    snapshot.command('get').argument('<snapshot>', 'its id or its name').description('One snapshot.'),
  ).action(act(async (id, options) => (await import('./snapshots.ts')).getSnapshot(id, options)))
  reaching(
    snapshot
      .command('delete')
      .alias('rm')
      .argument(...named)
      .description('Delete snapshots.'),
  ).action(act(async (ids, options) => (await import('./snapshots.ts')).deleteSnapshots(ids, options)))
}
