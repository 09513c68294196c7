import { Option } from 'commander'
import { parseDuration } from '../../options.ts'
import { type Registering, reaching, sessionArgument } from './registration.ts'

export function addPortCommands({ program, act }: Registering): void {
  const ports = program.command('ports').description('Manage ports that are reachable from outside.')
  reaching(
    ports
      .command('list')
      .alias('ls')
      .argument(...sessionArgument)
      .description('List open ports, and ports with a listening program.'),
  ).action(act(async (id, options) => (await import('../manage/ports.ts')).listPorts(id, options)))
  reaching(
    ports
      .command('get')
      .argument(...sessionArgument)
      .argument('<port>')
      .description('Show one open port.'),
  ).action(act(async (id, port, options) => (await import('../manage/ports.ts')).getPort(id, port, options)))
  reaching(
    ports
      .command('open')
      .argument(...sessionArgument)
      .argument('<port>')
      .description('Open a port, or change its access.'),
  )
    .addOption(
      new Option('--visibility <who>', 'private: requires a key or a link').choices([
        'private',
        'token',
        'public',
      ]),
    )
    .option('--wake', 'a visit starts a stopped session')
    .option('--rotate', 'create a new token; existing links become invalid')
    .action(
      act(async (id, port, options) => (await import('../manage/ports.ts')).openPort(id, port, options)),
    )
  reaching(
    ports
      .command('close')
      .argument(...sessionArgument)
      .argument('<port>')
      .description('Close a port and its connections.'),
  ).action(
    act(async (id, port, options) => (await import('../manage/ports.ts')).closePort(id, port, options)),
  )
  reaching(
    ports
      .command('link')
      .argument(...sessionArgument)
      .argument('<port>')
      .description('Create a link that needs no key and expires.'),
  )
    .option('--expires <time>', 'seconds, or a value such as 10m; default: 1h', parseDuration)
    .option('--path <path>', 'default: /')
    .action(
      act(async (id, port, options) => (await import('../manage/ports.ts')).linkPort(id, port, options)),
    )

  const snapshot = program.command('snapshot').description('Manage snapshots: saved disks of sessions.')
  const named = ['<snapshot...>', 'ids or names'] as const
  reaching(
    snapshot
      .command('create')
      .argument(...sessionArgument)
      .description('Save the disk of a session and print the snapshot’s id.'),
  )
    .option('--name <name>')
    .action(act(async (id, options) => (await import('../manage/snapshots.ts')).createSnapshot(id, options)))
  reaching(snapshot.command('list').alias('ls').description('List snapshots of the project.'))
    .option('--session <session>', 'only snapshots of this session (id or name)')
    .action(act(async (options) => (await import('../manage/snapshots.ts')).listSnapshots(options)))
  reaching(snapshot.command('get').argument('<snapshot>', 'id or name').description('One snapshot.')).action(
    act(async (id, options) => (await import('../manage/snapshots.ts')).getSnapshot(id, options)),
  )
  reaching(
    snapshot
      .command('delete')
      .alias('rm')
      .argument(...named)
      .description('Delete snapshots.'),
  ).action(
    act(async (ids, options) => (await import('../manage/snapshots.ts')).deleteSnapshots(ids, options)),
  )
}
