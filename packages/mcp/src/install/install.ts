import { randomBytes } from 'node:crypto'
import { copyFile, lstat, mkdir, open, readFile, realpath, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { type AgentName, agents, configurationFile, type ServerCommand } from './agents.ts'
import { withJsonValue } from './jsonc.ts'
import { tomlTable, withTomlTable } from './toml.ts'

export interface InstallOptions {
  readonly server: ServerCommand
  /** The project’s folder. */
  readonly project: string
  readonly home: string
}

export interface Installed {
  readonly file: string
  /** False: the file already had it. */
  readonly changed: boolean
  /** The file as it was before. */
  readonly backup?: string
}

/** Adds the server to the configuration of an agent, and changes nothing else in it. */
export async function install(agent: AgentName, options: InstallOptions): Promise<Installed> {
  const given = configurationFile(agent, options)
  await mkdir(path.dirname(given), { recursive: true })
  // A link to a file elsewhere stays a link.
  const file = await realpath(given).catch(() => given)
  const before = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  const after = configuration(agent, options.server, { text: before ?? '', file })
  if (after === before) return { file, changed: false }
  const backup = before === undefined ? undefined : `${file}.backup`
  if (backup !== undefined) await copyFile(file, backup)
  await replaceFile(file, after)
  return { file, changed: true, ...(backup !== undefined && { backup }) }
}

/** The part of the configuration that `install` would add. */
export function printed(agent: AgentName, server: ServerCommand): string {
  const { format, at, entry } = agents[agent]
  if (format === 'toml') return `${tomlTable(at, entry(server)).join('\n')}\n`
  return withJsonValue('', at, entry(server), { file: agent })
}

function configuration(
  agent: AgentName,
  server: ServerCommand,
  { text, file }: { text: string; file: string },
): string {
  const { format, at, entry } = agents[agent]
  if (format === 'toml') return withTomlTable(text, at, entry(server), { file })
  return withJsonValue(text, at, entry(server), { file })
}

/** Atomic, with the mode of the file. */
async function replaceFile(file: string, text: string): Promise<void> {
  const mode = await lstat(file).then(
    (stat) => stat.mode & 0o777,
    () => 0o644,
  )
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  try {
    const handle = await open(draft, 'wx', mode)
    try {
      await handle.writeFile(text)
      await handle.chmod(mode)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, file)
  } catch (cause) {
    await rm(draft, { force: true })
    throw new SandboxError('permission_denied', `${file} cannot be written.`, {
      cause,
      hint: 'Check its owner and mode.',
    })
  }
}
