import { homedir } from 'node:os'
import path from 'node:path'
import { type AgentName, agents, install as installAt, printed } from '@sandkasten/mcp/install'
import { say } from '../errors.ts'
import { type SandboxChoice, savedName, sharedProgram } from './program.ts'

export interface InstallOptions extends SandboxChoice {
  allowFolder?: string[]
  print?: boolean
}

/** Writes how the agent starts `sandkasten mcp`. The token is in a file of its own, which only this user may read. */
export async function install(agent: AgentName, options: InstallOptions): Promise<number> {
  savedName(options)
  const { sandbox, providerSandbox, allowFolder = [] } = options
  const which = sandbox === undefined ? ['--provider-sandbox', providerSandbox!] : ['--sandbox', sandbox]
  const folders = allowFolder.flatMap((folder) => ['--allow-folder', path.resolve(folder)])
  const [command, ...args] = sharedProgram('mcp', ...which, ...folders)
  const { SANDKASTEN_HOME: data } = process.env
  const server = { command: command!, args, ...(data && { env: { SANDKASTEN_HOME: path.resolve(data) } }) }
  if (options.print) {
    process.stdout.write(printed(agent, server))
    return 0
  }
  const { file, changed, backup } = await installAt(agent, {
    server,
    project: process.cwd(),
    home: homedir(),
  })
  if (!changed) say(`sandkasten: ${file} already has it.`)
  else say(`sandkasten: ${agents[agent].title} has the tools now: ${file}`)
  if (backup !== undefined) say(`  The file as it was before: ${backup}`)
  return 0
}
