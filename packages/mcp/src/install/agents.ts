import { existsSync } from 'node:fs'
import path from 'node:path'

export type AgentName = 'opencode' | 'claude' | 'codex' | 'cursor' | 'vscode'

/** How an agent starts our side. Contains no token. */
export interface ServerCommand {
  readonly command: string
  readonly args: readonly string[]
  /** Variables that are no secrets, such as `SANDKASTEN_HOME`: agents pass few of their own on. */
  readonly env?: Readonly<Record<string, string>>
}

export interface AgentSettings {
  readonly title: string
  /**
   * Its configuration, relative to the project’s folder, or to the home folder if it begins with `~/`. The first that
   * exists is used, or else the first.
   */
  readonly files: readonly string[]
  readonly format: 'jsonc' | 'toml'
  /** Where the server is in the configuration. */
  readonly at: readonly string[]
  /** The entry as this agent writes it. */
  entry(server: ServerCommand): Readonly<Record<string, unknown>>
}

const plain = ({ command, args, env }: ServerCommand) => ({ command, args, ...(env && { env }) })

/** One row for each agent. With the server’s name `sandbox`, opencode’s model sees `sandbox_run_command`. */
export const agents: Readonly<Record<AgentName, AgentSettings>> = {
  opencode: {
    title: 'opencode',
    files: ['opencode.json', 'opencode.jsonc'],
    format: 'jsonc',
    at: ['mcp', 'sandbox'],
    entry: ({ command, args, env }) => ({
      type: 'local',
      command: [command, ...args],
      ...(env && { environment: env }),
      enabled: true,
    }),
  },
  claude: {
    title: 'Claude Code',
    files: ['.mcp.json'],
    format: 'jsonc',
    at: ['mcpServers', 'sandbox'],
    entry: (server) => ({ type: 'stdio', ...plain(server) }),
  },
  codex: {
    title: 'Codex',
    files: ['~/.codex/config.toml'],
    format: 'toml',
    at: ['mcp_servers', 'sandbox'],
    entry: plain,
  },
  cursor: {
    title: 'Cursor',
    files: ['.cursor/mcp.json'],
    format: 'jsonc',
    at: ['mcpServers', 'sandbox'],
    entry: plain,
  },
  vscode: {
    title: 'VS Code',
    files: ['.vscode/mcp.json'],
    format: 'jsonc',
    at: ['servers', 'sandbox'],
    entry: (server) => ({ type: 'stdio', ...plain(server) }),
  },
}

export function configurationFile(
  agent: AgentName,
  { project, home }: { project: string; home: string },
): string {
  const files = agents[agent].files.map((file) =>
    file.startsWith('~/') ? path.join(home, file.slice(2)) : path.join(project, file),
  )
  return files.find((file) => existsSync(file)) ?? files[0]!
}
