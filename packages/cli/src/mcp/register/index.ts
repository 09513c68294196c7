import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import type { Registering } from '../../daemon/register/registration.ts'
import { parseDuration } from '../../options.ts'
import { reporting } from '../../sandbox/register/registration.ts'

/** Registers `sandkasten mcp …`: tools of a named sandbox for agents that run on this machine. */
export function addMcpCommands(program: Command, finish: (code: number) => void): void {
  const act = reporting(
    (run) =>
      async (...args) =>
        finish(await run(...args)),
  )
  const mcp = withSandboxOptions(program.command('mcp'))
    .description('Serve the tools of a named sandbox to an agent, over MCP on stdin and stdout.')
    .option('--token-file <file>', 'the token of the sandbox; default: SANDKASTEN_MCP_TOKEN, or a saved one')
    .option('--broker <address>', 'a socket, or http://127.0.0.1:PORT; default: starts a broker when needed')
    .option('--listen <port>', 'serve over streamable HTTP on this port of 127.0.0.1 instead', parsePort)
    .action(act(async (options) => (await import('../serve.ts')).serve(options)))
  withSandboxOptions(mcp.command('install'))
    .description('Add the tools to the configuration of an agent, for the project in the current folder.')
    .addArgument(new Argument('<agent>').choices(['opencode', 'claude', 'codex', 'cursor', 'vscode']))
    .option('--print', 'print what would be added, and change nothing')
    .action(act(async (agent, options) => (await import('../install.ts')).install(agent, options)))
  addBrokerCommands({ program: mcp, act })
}

function withSandboxOptions(command: Command): Command {
  return command
    .option('--sandbox <name>', 'the sandbox; it is started when the agent uses it')
    .addOption(
      new Option('--provider-sandbox <id>', 'the sandbox, by the id of its provider').conflicts('sandbox'),
    )
    .option(
      '--allow-folder <folder>',
      'the agent may upload files of this folder (repeatable); default: none',
      (folder: string, all: string[] = []) => [...all, folder],
    )
}

function parsePort(text: string): number {
  const port = Number(text)
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port
  throw new InvalidArgumentError('Use a whole number from 0 (a free port) to 65535.')
}

function addBrokerCommands({ program, act }: Registering): void {
  program
    .command('broker')
    .description(
      'Run tools of named sandboxes for agents. It has the credentials of the providers, agents not.',
    )
    .option('--port <port>', 'also listen on this port of 127.0.0.1, for agents of other users', parsePort)
    .option(
      '--idle-exit <time>',
      'end after this long without calls, such as 15m; default: never',
      parseDuration,
    )
    .action(act(async (options) => (await import('../broker.ts')).broker(options)))
  program
    .command('token')
    .argument('[name]', 'the sandbox')
    .description('Print a new token that opens one sandbox, and nothing else.')
    .addOption(new Option('--provider-sandbox <id>', 'the sandbox, by the id of its provider'))
    .option('--save', 'save it for agents of this user instead, and print the file')
    .option('--revoke', 'revoke all tokens of the sandbox instead')
    .action(act(async (name, options) => (await import('../token.ts')).token(name, options)))
}
