import type { Registering } from '../../daemon/register/registration.ts'

/** Credentials that network policies of named sandboxes send. */
export function addSecretCommands({ program, act }: Registering): void {
  const secret = program
    .command('secret')
    .description('Credentials that network policies send, and that sandboxes cannot read.')
  secret
    .command('set')
    .argument('<name>')
    .description(
      'Set a secret. The value comes from stdin, or is asked for. Running sandboxes get it at once.',
    )
    .option('--from-env <variable>', 'take the value from this variable')
    .option('--value <value>', 'the value; other programs and the shell’s history can see it here')
    .option('--json', 'for programs; asks nothing')
    .action(act(async (name, options) => (await import('../secrets.ts')).setSecret(name, options)))
  secret
    .command('list')
    .alias('ls')
    .description('List secrets, without their values.')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
    .action(act(async (options) => (await import('../secrets.ts')).listSecrets(options)))
  secret
    .command('delete')
    .alias('rm')
    .argument('<name...>')
    .description('Delete secrets. Requests that need them are refused from then on.')
    .option('--json', 'for programs')
    .action(act(async (names, options) => (await import('../secrets.ts')).deleteSecrets(names, options)))
}
