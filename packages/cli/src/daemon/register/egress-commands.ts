import { type Command, Option } from 'commander'
import { withNetworkOptions } from '../../network-option.ts'
import { type Registering, reaching, sessionArgument } from './registration.ts'

/** What a session reaches: `sessions network` and `sessions egress`. */
export function addEgressCommands(sessions: Command, { act }: Pick<Registering, 'act'>): void {
  withNetworkOptions(
    reaching(
      sessions
        .command('network')
        .argument(...sessionArgument)
        .description('Show what a session may reach, or replace it at once.'),
    ),
  ).action(act(async (id, options) => (await import('../manage/egress.ts')).network(id, options)))
  reaching(
    sessions
      .command('egress')
      .argument(...sessionArgument)
      .description('List what a session with a network policy reached, and what it was refused.'),
  )
    .option('-f, --follow', 'wait for new events and print them')
    .option('--denied', 'only what was refused')
    .addOption(
      new Option('--verdict <verdict>', 'only these').choices(['allowed', 'denied', 'audit', 'error']),
    )
    .option('--after <number>', 'only events after this number')
    .option('--limit <number>', 'maximum number of events')
    .option('--policy', 'print the policy that would have sufficed, for --network FILE')
    .action(act(async (id, options) => (await import('../manage/egress.ts')).egress(id, options)))
}

export function addSecretCommands({ program, act }: Registering): void {
  const secrets = program
    .command('secrets')
    .description('Credentials that network policies send, and that sandboxes cannot read.')
  reaching(
    secrets
      .command('set')
      .argument('<name>')
      .description('Set a secret. The value comes from stdin, or is asked for.'),
  )
    .option('--value <value>', 'the value; other programs and the shell’s history can see it here')
    .option('--from-env <variable>', 'take the value from this variable')
    .option('--host <host...>', 'the only hosts that it may be sent to, such as api.github.com')
    .action(act(async (name, options) => (await import('../manage/secrets.ts')).setSecret(name, options)))
  reaching(secrets.command('list').alias('ls').description('List secrets, without their values.')).action(
    act(async (options) => (await import('../manage/secrets.ts')).listSecrets(options)),
  )
  reaching(secrets.command('remove').alias('rm').argument('<name...>').description('Delete secrets.')).action(
    act(async (names, options) => (await import('../manage/secrets.ts')).removeSecrets(names, options)),
  )
  reaching(
    secrets
      .command('rotate-key')
      .description('Encrypt the secrets of all projects with a new key (operator only).'),
  ).action(act(async (options) => (await import('../manage/secrets.ts')).rotateKey(options)))
}
