import { type Command, Option } from 'commander'
import { surviveOutputFailures } from '../../output.ts'
import type { UpSetup } from '../up.ts'
import { addAccountCommands } from './account-commands.ts'
import { addSecretCommands } from './egress-commands.ts'
import { addFileCommands } from './file-commands.ts'
import { addPortCommands } from './port-commands.ts'
import { type Registering, reaching } from './registration.ts'
import { addSessionCommands } from './session-commands.ts'
import { addVolumeCommands } from './volume-commands.ts'
import { addWorkCommands } from './work-commands.ts'

/** Registers the daemon's commands. Their code is loaded on use, so that `sandkasten run` starts faster. */
export function addDaemonCommands(program: Command, finish: (code: number) => void, setup?: UpSetup): void {
  const act: Registering['act'] =
    (run) =>
    async (...args) =>
      finish(await run(...args))
  const registering = { program, act }

  const up = program
    .command('up')
    .description('Run the daemon: stateful sandboxes over HTTP.')
    .option('-c, --config <file>', 'default: sandkasten.yaml in the current folder, if it exists')
    .option('--listen <address:port>')
    .option('--data-dir <folder>', 'folder for sandboxes, database and identity')
    .addOption(new Option('--isolator <isolator>').choices(['auto', 'oci', 'docker', 'process']))
    .option('--runtime <program>', 'for isolator oci: crun (default), runc or a path')
    .option('--accept-no-isolation', 'for trusted code only: run without isolation if no isolator works')
    .addOption(
      new Option('--log-format <format>', 'default: text on a terminal, otherwise json').choices([
        'auto',
        'text',
        'json',
      ]),
    )
    .option('--json', 'print the address as one line of JSON')
    .action(
      act(async (options) => {
        // Sessions must survive if the reader of the first lines goes away.
        surviveOutputFailures()
        return (await import('../up.ts')).up(options, setup)
      }),
    )
  if (setup) up.option('--yes', 'install missing packages without asking')

  const config = program.command('config').description('Inspect the daemon’s configuration.')
  config
    .command('check')
    .description('Validate the configuration and print it, with secrets masked.')
    .option('-c, --config <file>')
    .option('--json', 'for programs')
    .action(act(async (options) => (await import('../config.ts')).checkConfig(options)))

  reaching(
    program.command('status').description('Show whether the daemon works, and what is in use.'),
  ).action(act(async (options) => (await import('../manage/status.ts')).status(options)))
  addSessionCommands(registering)
  addWorkCommands(registering)
  addFileCommands(registering)
  addPortCommands(registering)
  addVolumeCommands(registering)
  addSecretCommands(registering)
  addAccountCommands(registering)
}
