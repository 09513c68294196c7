import { Option } from 'commander'
import type { Registering } from '../../daemon/register/registration.ts'
import { withNetworkOptions } from '../../network-option.ts'
import { parseDuration, parseEnv, parseLabel, parseNumber, parseSize } from '../../options.ts'
import { parsePort, parseProviderOption } from '../parse.ts'
import { nameArgument, namesArgument } from './registration.ts'

export function addLifecycleCommands({ program, act }: Registering): void {
  program
    .command('list')
    .alias('ls')
    .description('List sandboxes, the last used first.')
    .option('--refresh', 'ask the providers; one that does not answer is shown as unreachable')
    .option(
      '--timeout <time>',
      'with --refresh: how long to wait for each provider; default: 10s',
      parseDuration,
    )
    .option('--all', 'include destroyed sandboxes')
    .option('--provider <provider>', 'only sandboxes of this provider')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
    .action(act(async (options) => (await import('../list.ts')).list(options)))

  withNetworkOptions(program.command('create'))
    .description('Create a sandbox and print its name. On a terminal, asks for what the options leave open.')
    .argument('[name]', 'default: a readable name, such as brave-otter')
    .option('--name <name>', 'the same as an option')
    .option('--provider <provider>', 'see sandkasten sandbox providers')
    .option('--repo <url>', 'clone this git repository')
    .option('--git-token-env <variable>', 'for a private repository: the variable that has the token')
    .option('--upload [folder]', 'upload this folder; default: the current one')
    .option('--snapshot <id>', 'start from this snapshot of the provider')
    .option('--image <image>')
    .option('--runtime <runtime>', 'an image that has this program, such as node24 or python3.13')
    .option(
      '-e, --env <name=value>',
      'set a variable; a bare name takes the value from this machine (repeatable)',
      parseEnv,
    )
    .option('--label <key=value>', 'a label at the provider (repeatable)', parseLabel)
    .option('--description <text>', 'for people')
    .option('--lifetime <time>', 'maximum running time after each start, such as 2h', parseDuration)
    .option('--idle-stop <time>', 'stop after this long without use, such as 30m', parseDuration)
    .option('--port <port>', 'a port that will be opened; some providers must know (repeatable)', parsePort)
    .option('-m, --memory <size>', 'such as 512m or 2g', parseSize)
    .option('--cpus <number>', 'such as 0.5', parseNumber)
    .option('--disk <size>', 'such as 500m or 10g', parseSize)
    .addOption(new Option('-u, --user <user>', 'root: commands are root of the sandbox').choices(['root']))
    .option(
      '--option <name=value>',
      'an option of this provider alone, such as pids=64 (repeatable)',
      parseProviderOption,
    )
    .option('--thread <id>', 'attach this thread')
    .option('-y, --yes', 'ask nothing')
    .option('--json', 'for programs; asks nothing')
    .action(act(async (name, options) => (await import('../create.ts')).create(name, options)))

  program
    .command('show')
    .argument(...nameArgument)
    .description('Show one sandbox: where it is, its state, and who uses it.')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
    .action(act(async (name, options) => (await import('../show.ts')).show(name, options)))

  program
    .command('start')
    .argument(...namesArgument)
    .description('Start stopped sandboxes, or restore them from their last snapshot.')
    .option('--json', 'for programs')
    .action(act(async (names, options) => (await import('../start.ts')).start(names, options)))

  program
    .command('stop')
    .argument(...namesArgument)
    .description('End all processes and keep the disks.')
    .option('-f, --force', 'also if others use the sandbox')
    .option('--json', 'for programs')
    .action(act(async (names, options) => (await import('../stop.ts')).stop(names, options)))

  program
    .command('snapshot')
    .argument(...nameArgument)
    .description('Save the disk and print the snapshot’s id.')
    .option('--name <name>', 'a name for the snapshot at the provider')
    .option('-f, --force', 'also if this interrupts others')
    .option('--json', 'for programs')
    .action(act(async (name, options) => (await import('../snapshot.ts')).snapshot(name, options)))

  program
    .command('snapshots')
    .argument('[id...]', 'with --remove: which')
    .description('List the snapshots at a provider, also those of sandboxes that are gone.')
    .option('--provider <provider>', 'default: the default provider')
    .option('--remove', 'delete these snapshots; asks on a terminal')
    .option('-y, --yes', 'do not ask')
    .option('-f, --force', 'also if a sandbox would be restored from it')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
    .action(act(async (ids, options) => (await import('../snapshots.ts')).snapshots(ids, options)))

  withNetworkOptions(program.command('network'))
    .argument(...nameArgument)
    .description(
      'Show what a sandbox may reach, or replace it. A running sandbox has the new network at once.',
    )
    .option('--json', 'for programs')
    .action(act(async (name, options) => (await import('../network.ts')).network(name, options)))

  program
    .command('destroy')
    .alias('rm')
    .argument(...namesArgument)
    .description('Destroy sandboxes and their disks. Asks on a terminal.')
    .option('-y, --yes', 'do not ask')
    .option('-f, --force', 'with --yes: also if others use the sandbox')
    .option('--json', 'for programs')
    .action(act(async (names, options) => (await import('../destroy.ts')).destroy(names, options)))

  program
    .command('rename')
    .argument(...nameArgument)
    .argument('<new-name>')
    .description('Give a sandbox another name.')
    .option('--json', 'for programs')
    .action(
      act(async (name, newName, options) => (await import('../rename.ts')).rename(name, newName, options)),
    )
}
