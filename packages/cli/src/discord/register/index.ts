import { type Command, Option } from 'commander'
import { withNetworkOptions } from '../../network-option.ts'
import { parseDuration } from '../../options.ts'
import { reporting } from '../../sandbox/register/registration.ts'

/** Registers `sandkasten discord …` and `sandkasten send`: threads in Discord that work in sandboxes. */
export function addDiscordCommands(program: Command, finish: (code: number) => void): void {
  const act = reporting(
    (run) =>
      async (...args) =>
        finish(await run(...args)),
  )
  const discord = withNetworkOptions(program.command('discord'))
    .description('Run the bot for Discord until Ctrl-C. First: sandkasten discord setup.')
    .addOption(
      new Option('--mode <mode>', 'where agents run; at home no key enters a sandbox')
        .choices(['home', 'inside', 'auto'])
        .default('home'),
    )
    .option('--model <provider/model>', 'such as anthropic/claude-sonnet-4-5')
    .option('--model-url <url>', 'the address of the model’s API, such as http://127.0.0.1:8080/v1')
    .option(
      '--credential <variable>',
      'the key of the model is in this variable (repeatable)',
      (name: string, all: string[] = []) => [...all, name],
    )
    .action(act(async (options) => (await import('../run.ts')).run(options)))
  discord
    .command('setup')
    .description('Check the token of a bot, store it, register the commands, and print the invite link.')
    .option('--no-store', 'do not store the token')
    .option('--remove', 'forget the stored token')
    .option('--json', 'for programs; asks nothing')
    .action(act(async (options) => (await import('../setup.ts')).setup(options)))
  discord
    .command('unit')
    .argument('[options...]', 'options of sandkasten discord; put -- before them')
    .description('Print a unit for systemd that runs the bot.')
    .action(act(async (options) => (await import('../run.ts')).printUnit(options)))
  program
    .command('send')
    .description('Start a thread in Discord, or continue one. The running bot does the work.')
    .option('--channel <id>', 'the channel for a new thread')
    .addOption(
      new Option('--thread <id>', 'continue this thread').conflicts(['channel', 'sandbox', 'newSandbox']),
    )
    .option('--prompt <text>', 'what the agent should do; default: stdin')
    .option('--sandbox <name>', 'use this sandbox')
    .addOption(new Option('--new-sandbox [name]', 'make a new sandbox').conflicts('sandbox'))
    .option('--sandbox-provider <provider>', 'with --new-sandbox; default: the provider of the channel')
    .option('--sandbox-repo <url>', 'with --new-sandbox: clone this git repository')
    .option('--sandbox-snapshot <id>', 'with --new-sandbox: start from this snapshot')
    .option('--model <model>', 'such as vendor/model')
    .option('--file <path>', 'attach this file (repeatable)', (file: string, all: string[] = []) => [
      ...all,
      file,
    ])
    .option('--wait', 'wait for the answer and print it; exits with 1 if it failed, 3 if no bot answered')
    .option('--timeout <time>', 'with --wait: how long the answer may take; default: 1h', parseDuration)
    .option('--json', 'for programs')
    .action(act(async (options) => (await import('../send.ts')).send(options)))
}
