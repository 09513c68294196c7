import type { Registering } from '../../daemon/register/registration.ts'
import { nameArgument } from './registration.ts'

export function addUpkeepCommands({ program, act }: Registering): void {
  program
    .command('prune')
    .description('Compare with the providers, do due work, and remove what failed. Asks on a terminal.')
    .option('--provider <provider>', 'only compare with this provider')
    .option('-y, --yes', 'do not ask')
    .option('--json', 'for programs')
    .action(act(async (options) => (await import('../prune.ts')).prune(options)))
  program
    .command('work')
    .description(
      'Do due work until Ctrl-C: idle stops, snapshots before a provider ends a sandbox. For a service.',
    )
    .option('--once', 'do what is due now, and end')
    .option('--json', 'one line of JSON for each report')
    .action(act(async (options) => (await import('../work.ts')).work(options)))
  program
    .command('attach')
    .argument(...nameArgument)
    .argument('<thread>', 'the thread’s id')
    .description('Attach a thread to a sandbox.')
    .option('--json', 'for programs')
    .action(
      act(async (name, thread, options) => (await import('../threads.ts')).attach(name, thread, options)),
    )
  program
    .command('detach')
    .argument('<thread>', 'the thread’s id')
    .description('Detach a thread from its sandbox.')
    .option('--json', 'for programs')
    .action(act(async (thread, options) => (await import('../threads.ts')).detach(thread, options)))
}
