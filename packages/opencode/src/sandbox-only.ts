/** For a session of an agent at home whose tools are in a sandbox. */
export interface SandboxOnlyOptions {
  /** The name of the MCP server with the sandbox’s tools. Default `sandbox`. */
  readonly server?: string
  /** How opencode reaches it, as in its configuration. Leave it out if it is added later, with `client.mcp.add()`. */
  readonly mcp?: Readonly<Record<string, unknown>>
  /** More tools that touch nothing of the host. Default `todowrite`, `question`. */
  readonly alsoAllow?: readonly string[]
}

export interface PermissionRule {
  readonly permission: string
  readonly pattern: string
  readonly action: 'allow' | 'deny' | 'ask'
}

export interface SandboxOnly {
  /** For the process `opencode serve` at home. */
  readonly env: Readonly<Record<string, string>>
  /** For `session.create({ permission })` of each session. */
  readonly permission: PermissionRule[]
}

/**
 * Settings with which opencode at home uses only tools of a sandbox, even in a repository whose own configuration allows
 * others. Both parts are needed: a project’s configuration can also start programs before the first prompt.
 *
 * `session.shell`, `file.read` and `pty.create` are calls of the server, not tools. They act on the host that runs
 * opencode, so do not offer them to users.
 */
export function sandboxOnly(options: SandboxOnlyOptions = {}): SandboxOnly {
  const { server = 'sandbox', mcp, alsoAllow = ['todowrite', 'question'] } = options
  const allowed = [`${server}_*`, ...alsoAllow]
  const permission = { '*': 'deny', ...Object.fromEntries(allowed.map((tool) => [tool, 'allow'])) }
  const config = {
    permission,
    // Programs that opencode starts on the host by itself.
    autoupdate: false,
    share: 'disabled',
    formatter: false,
    lsp: false,
    ...(mcp === undefined ? {} : { mcp: { [server]: mcp } }),
  }
  return {
    env: {
      OPENCODE_DISABLE_PROJECT_CONFIG: '1',
      OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
      OPENCODE_PERMISSION: JSON.stringify(permission),
    },
    permission: [
      { permission: '*', pattern: '*', action: 'deny' },
      ...allowed.map((tool): PermissionRule => ({ permission: tool, pattern: '*', action: 'allow' })),
    ],
  }
}
