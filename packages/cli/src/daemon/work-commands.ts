import { type Command, Option } from 'commander'

/** Commands that work in a session: terminals, files, output, ports, snapshots. */
export function addWorkCommands(
  program: Command,
  reaching: (command: Command) => Command,
  finish: (code: number) => void,
): void {
  const act =
    <A extends unknown[]>(run: (...args: A) => Promise<number>) =>
    async (...args: A) =>
      finish(await run(...args))

  reaching(
    program
      .command('shell')
      .description('A terminal in a session. Ctrl-] leaves it and lets it go on.')
      .argument('<id>', 'the session: its id or its name')
      .argument('[command...]', 'instead of a login shell; put -- before it'),
  )
    .option('--terminal <name>', 'one that you can come back to: found when it is there, else opened')
    .option('-a, --attach', 'come back to the newest that runs')
    .option('--list', 'the session’s terminals')
    .action(act(async (id, command, options) => (await import('./shell.ts')).shell(id, command, options)))

  reaching(
    program
      .command('cp')
      .description('Copy a file or a folder into a session or out of it.')
      .argument('<from>', 'a path, or SESSION:path')
      .argument('<to>', 'a path, or SESSION:path; one of the two is in a session'),
  ).action(act(async (from, to, options) => (await import('./cp.ts')).cp(from, to, options)))

  reaching(
    program
      .command('logs')
      .description('What a command has said, to its end; without one, what happened to the session.')
      .argument('<id>', 'the session: its id or its name')
      .argument('[command]', 'the exec_id of a command'),
  )
    .option('-f, --follow', 'without a command: go on with what happens')
    .action(act(async (id, command, options) => (await import('./logs.ts')).logs(id, command, options)))

  const ports = program.command('ports').description('Ports of a session that can be reached from outside.')
  reaching(
    ports.command('list').argument('<id>').description('Open ports, and those on which something listens.'),
  ).action(act(async (id, options) => (await import('./ports.ts')).listPorts(id, options)))
  reaching(
    ports
      .command('open')
      .argument('<id>')
      .argument('<port>')
      .description('Open a port, or change who may come.'),
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
      .argument('<id>')
      .argument('<port>')
      .description('Close a port; connections are cut.'),
  ).action(act(async (id, port, options) => (await import('./ports.ts')).closePort(id, port, options)))
  reaching(
    ports
      .command('link')
      .argument('<id>')
      .argument('<port>')
      .description('A link that needs no key and ends by itself.'),
  )
    .option('--expires <seconds>', 'default: an hour', Number)
    .option('--path <path>', 'default: /')
    .action(act(async (id, port, options) => (await import('./ports.ts')).linkPort(id, port, options)))

  const snapshot = program.command('snapshot').description('Saved disks of sessions.')
  reaching(
    snapshot
      .command('create')
      .argument('<id>', 'the session: its id or its name')
      .description('Save its disk; prints the snapshot’s id.'),
  )
    .option('--name <name>')
    .action(act(async (id, options) => (await import('./snapshots.ts')).createSnapshot(id, options)))
  reaching(snapshot.command('list').description('Snapshots of the project.'))
    .option('--session <id>', 'of one session')
    .action(act(async (options) => (await import('./snapshots.ts')).listSnapshots(options)))
  reaching(snapshot.command('delete').argument('<id...>').description('Delete snapshots.')).action(
    act(async (ids, options) => (await import('./snapshots.ts')).deleteSnapshots(ids, options)),
  )
}
