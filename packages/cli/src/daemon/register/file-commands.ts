import { parseMode } from '../../options.ts'
import { type Registering, reaching, sessionArgument } from './registration.ts'

export function addFileCommands({ program, act }: Registering): void {
  reaching(
    program
      .command('cp')
      .description('Copy a file or folder into or out of a session.')
      .argument('<from>', 'a path, SESSION:path, or - for stdin')
      .argument('<to>', 'a path, SESSION:path, or - for stdout; exactly one of the two is in a session'),
  ).action(act(async (from, to, options) => (await import('../in-session/cp.ts')).cp(from, to, options)))

  const files = program.command('files').description('Work with files of a session; cp copies them.')
  const add = (verb: string, description: string) =>
    reaching(
      files
        .command(verb)
        .description(description)
        .argument(...sessionArgument),
    )
  add('list', 'List a folder.')
    .alias('ls')
    .argument('[folder]')
    .option('-r, --recursive', 'include subfolders')
    .action(
      act(async (id, path, options) => (await import('../in-session/files.ts')).listFiles(id, path, options)),
    )
  add('stat', 'Show the type, size and mode of a path.')
    .argument('<path>')
    .option('--follow', 'follow a symbolic link')
    .action(
      act(async (id, path, options) => (await import('../in-session/files.ts')).statFile(id, path, options)),
    )
  add('write', 'Write stdin to a file.')
    .argument('<path>')
    .option('--append', 'append to the file')
    .option('--mode <mode>', 'such as 644', parseMode)
    .action(
      act(async (id, path, options) => (await import('../in-session/files.ts')).writeFile(id, path, options)),
    )
  add('mkdir', 'Create a folder.')
    .argument('<path>')
    .option('-p, --parents', 'also create parents; an existing folder is no error')
    .option('--mode <mode>', 'such as 755', parseMode)
    .action(
      act(async (id, path, options) =>
        (await import('../in-session/files.ts')).makeFolder(id, path, options),
      ),
    )
  add('move', 'Move or rename a file or folder.')
    .alias('mv')
    .argument('<from>')
    .argument('<to>')
    .action(
      act(async (id, from, to, options) =>
        (await import('../in-session/files.ts')).moveFile(id, from, to, options),
      ),
    )
  add('remove', 'Remove a file or folder.')
    .alias('rm')
    .argument('<path>')
    .option('-r, --recursive', 'remove a folder with its content')
    .option('-f, --force', 'ignore a missing path')
    .action(
      act(async (id, path, options) =>
        (await import('../in-session/files.ts')).removeFile(id, path, options),
      ),
    )
  add('chmod', 'Change the mode of a file.')
    .argument('<mode>', 'such as 755', parseMode)
    .argument('<path>')
    .action(
      act(async (id, mode, path, options) =>
        (await import('../in-session/files.ts')).changeMode(id, mode, path, options),
      ),
    )
  add('link', 'Create a symbolic link.')
    .argument('<target>')
    .argument('<path>')
    .action(
      act(async (id, target, path, options) =>
        (await import('../in-session/files.ts')).makeLink(id, target, path, options),
      ),
    )
  add('watch', 'Print changes in a folder until Ctrl-C.')
    .argument('[folder]')
    .option('-r, --recursive', 'include subfolders')
    .action(
      act(async (id, path, options) =>
        (await import('../in-session/files.ts')).watchFiles(id, path, options),
      ),
    )
  add('pack', 'Write a folder to stdout as a tar archive.')
    .argument('[folder]')
    .action(
      act(async (id, path, options) =>
        (await import('../in-session/files.ts')).packFolder(id, path, options),
      ),
    )
  add('unpack', 'Unpack a tar archive from stdin into a folder.')
    .argument('[folder]')
    .option('--gzip', 'the archive is compressed')
    .action(
      act(async (id, path, options) =>
        (await import('../in-session/files.ts')).unpackArchive(id, path, options),
      ),
    )
}
