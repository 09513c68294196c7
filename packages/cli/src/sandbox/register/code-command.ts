import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Registering } from '../../daemon/register/registration.ts'
import { withNetworkOptions } from '../../network-option.ts'

/** Registers `sandkasten workspaces`. */
export function addWorkspacesCommand({ program, act }: { program: Command; act: Registering['act'] }): void {
  program
    .command('workspaces')
    .description('Serve sandboxes as workspaces to opencode. The plugin @sandkasten/opencode starts it.')
    .action(act(async () => (await import('../workspaces/workspaces.ts')).workspaces()))
}

/** Registers `sandkasten chat`. */
export function addChatCommand({ program, act }: { program: Command; act: Registering['act'] }): void {
  withNetworkOptions(program.command('chat'))
    .description(
      'Talk to a coding agent in a sandbox. The conversation belongs to the name, or to this folder.',
    )
    .argument('[name]', 'the conversation, and the name of its new sandbox')
    .option('--provider <provider>', 'for a new sandbox: see sandkasten sandbox providers')
    .option('--sandbox <name>', 'begin in an existing sandbox')
    .option('--repo <url>', 'for a new sandbox: clone this git repository')
    .option('--model <provider/model>', 'such as anthropic/claude-sonnet-4-5')
    .option('--model-url <url>', 'the address of the model’s API, such as http://127.0.0.1:8080/v1', parseUrl)
    .option('--credential <variable>', 'the key of the model is in this variable (repeatable)', collect)
    .action(act(async (name, options) => (await import('../chat/chat.ts')).chat(name, options)))
}

/** Registers `sandkasten code`. */
export function addCodeCommand({ program, act }: { program: Command; act: Registering['act'] }): void {
  withNetworkOptions(program.command('code'))
    .description(
      'Work with a coding agent in a sandbox of this project: upload it, open the agent, and pull the changes back.',
    )
    .argument('[path]', 'the folder of the project; default: the current one')
    .option('--provider <provider>', 'for a new sandbox: see sandkasten sandbox providers')
    .option('--sandbox <name>', 'another sandbox than the one of this folder')
    .addOption(new Option('--agent <agent>', 'default: opencode').choices(['opencode', 'claude']))
    .option('--model <provider/model>', 'such as anthropic/claude-sonnet-4-5')
    .option('--model-url <url>', 'the address of the model’s API, such as http://127.0.0.1:8080/v1', parseUrl)
    .option('--credential <variable>', 'give the agent the key in this variable (repeatable)', collect)
    .option('-p, --prompt <text>', 'run one prompt and print the answer; - reads it from stdin')
    .addOption(
      new Option('--pull <as>', 'pull the changes without asking').choices(['branch', 'patch', 'no']),
    )
    .option('--new', 'start a new session of the agent')
    .option('-y, --yes', 'ask nothing')
    .option('--json', 'for programs; needs -p')
    .action(act(async (path, options) => (await import('../code/code.ts')).code(path, options)))
}

function collect(text: string, before: readonly string[] = []): string[] {
  return [...before, text]
}

function parseUrl(text: string): string {
  const protocol = URL.canParse(text) ? new URL(text).protocol : undefined
  if (protocol === 'http:' || protocol === 'https:') return text
  throw new InvalidArgumentError('Use a URL such as http://127.0.0.1:8080/v1.')
}
