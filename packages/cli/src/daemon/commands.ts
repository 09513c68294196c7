import { type Command, Option } from 'commander'
import { surviveOutputFailures } from '../output.ts'
import { addAccountCommands } from './account-commands.ts'
import { addFileCommands } from './file-commands.ts'
import { addPortCommands } from './port-commands.ts'
import { type Registering, reaching } from './register.ts'
import { addSessionCommands } from './session-commands.ts'
import type { UpSetup } from './up.ts'
import { addWorkCommands } from './work-commands.ts'

/** The daemon's commands. What they do is loaded when one is used: `sandkasten run` needs none of it. */
export function addDaemonCommands(program: Command, finish: (code: number) => void, setup?: UpSetup): void {
  const act: Registering['act'] =
    (run) =>
    async (...args) =>
      finish(await run(...args))
  const registering = { program, act }

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
    .action(
      act(async (options) => {
        // Sessions outlive the reader of the first lines.
        surviveOutputFailures()
        return (await import('./up.ts')).up(options, setup)
      }),
    )
  if (setup) up.option('--yes', 'install what is missing without asking')

  const config = program.command('config').description('The daemon’s configuration.')
  config
    .command('check')
    .description('Check it and print what is in force, secrets masked.')
    .option('-c, --config <file>')
    .option('--json', 'for programs')
    .action(act(async (options) => (await import('./config.ts')).checkConfig(options)))

  reaching(program.command('status').description('Whether the daemon works, and what is in use.')).action(
    act(async (options) => (await import('./status.ts')).status(options)),
  )
  addSessionCommands(registering)
  addWorkCommands(registering)
  addFileCommands(registering)
  addPortCommands(registering)
  addAccountCommands(registering)
}
