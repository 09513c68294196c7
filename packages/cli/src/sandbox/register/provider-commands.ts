import type { Registering } from '../../daemon/register/registration.ts'

export function addProviderCommands({ program, act }: Registering): void {
  program
    .command('providers')
    .description('List providers: which are set up, which is the default, what is missing.')
    .option('--json', 'for programs')
    .action(act(async (options) => (await import('../providers.ts')).providers(options)))
  program
    .command('setup')
    .description(
      'Set up a provider: setup PROVIDER --help lists its settings. Also --list, --default, --remove.',
    )
    // The settings come from the SDK's table, which is loaded when the command runs.
    .allowUnknownOption()
    .helpOption(false)
    .argument('[arguments...]')
    .action(act(async (args) => (await import('../setup/setup.ts')).setup(args)))
}
