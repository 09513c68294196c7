import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'

/** For a session of an agent at home whose tools are in a sandbox. */
export interface SandboxOnlyOptions {
  /** The name of the MCP server with the sandbox’s tools. Default `sandbox`. */
  readonly server?: string
  /** How opencode reaches it, as in its configuration. Leave it out if it is added later, with `client.mcp.add()`. */
  readonly mcp?: Readonly<Record<string, unknown>>
  /** More of opencode’s configuration, such as its models. */
  readonly config?: Readonly<Record<string, unknown>>
  /** More tools that touch nothing of the host. Default `todowrite`, `question`. */
  readonly alsoAllow?: readonly string[]
  /** An empty folder of this machine, made if it does not exist. Default: a new one in the folder for temporary files. */
  readonly directory?: string
}

export interface PermissionRule {
  readonly permission: string
  readonly pattern: string
  readonly action: 'allow' | 'deny' | 'ask'
}

export interface SandboxOnly {
  /** For the process `opencode serve` at home. */
  readonly env: Readonly<Record<string, string>>
  /** The `directory` of the client and of each session, and the working directory of the process. Never a project’s. */
  readonly directory: string
  /** For `session.create({ permission })` of each session. */
  readonly permission: PermissionRule[]
}

/**
 * Settings with which opencode at home uses only tools of a sandbox. All three parts are needed. opencode 1.18 runs the
 * plugins of a project whatever its settings say, so the agent works in an empty folder, and the project is only in the
 * sandbox. A repository of its own there ends opencode’s search in the folders above.
 *
 * `session.shell`, `file.read` and `pty.create` are calls of the server, not tools. They act on the host that runs
 * opencode, so do not offer them to users.
 */
export async function sandboxOnly(options: SandboxOnlyOptions = {}): Promise<SandboxOnly> {
  const { server = 'sandbox', mcp, config: more, alsoAllow = ['todowrite', 'question'] } = options
  const allowed = [`${server}_*`, ...alsoAllow]
  const permission = { '*': 'deny', ...Object.fromEntries(allowed.map((tool) => [tool, 'allow'])) }
  const config = {
    ...more,
    permission,
    // Programs that opencode starts on the host by itself.
    autoupdate: false,
    share: 'disabled',
    formatter: false,
    lsp: false,
    ...(mcp === undefined ? {} : { mcp: { ...(more?.mcp as object | undefined), [server]: mcp } }),
  }
  return {
    env: {
      OPENCODE_DISABLE_PROJECT_CONFIG: '1',
      OPENCODE_PURE: '1',
      OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
      OPENCODE_PERMISSION: JSON.stringify(permission),
    },
    directory: await emptyDirectory(options.directory),
    permission: [
      { permission: '*', pattern: '*', action: 'deny' },
      ...allowed.map((tool): PermissionRule => ({ permission: tool, pattern: '*', action: 'allow' })),
    ],
  }
}

async function emptyDirectory(given: string | undefined): Promise<string> {
  const directory = given ?? (await mkdtemp(path.join(tmpdir(), 'sandkasten-agent-')))
  if (given !== undefined) await mkdir(given, { recursive: true, mode: 0o700 })
  const names = (await readdir(directory)).filter((name) => name !== '.git')
  if (names.length > 0)
    throw new SandboxError('conflict', `The folder ${directory} is not empty.`, {
      hint: 'Pass a folder without files as `directory`: what is in it could run programs on this machine.',
    })
  // An empty template: hooks of the account’s own template would be programs.
  await promisify(execFile)('git', ['init', '--quiet', '--template=', directory])
  return directory
}
