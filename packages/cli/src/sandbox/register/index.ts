import type { Command } from 'commander'
import { addChatCommand, addCodeCommand, addWorkspacesCommand } from './code-command.ts'
import { addLifecycleCommands } from './lifecycle-commands.ts'
import { addProviderCommands } from './provider-commands.ts'
import { reporting } from './registration.ts'
import { addSecretCommands } from './secret-commands.ts'
import { addUpkeepCommands } from './upkeep-commands.ts'
import { addUseCommands } from './use-commands.ts'

/**
 * Registers `sandkasten sandbox …`, named sandboxes on any provider, `sandkasten code` and `sandkasten chat`. An action imports the registry when it runs, so
 * that other commands start as fast as without it.
 */
export function addSandboxCommands(program: Command, finish: (code: number) => void): void {
  const sandbox = program
    .command('sandbox')
    .description('Manage named sandboxes on any provider. They outlive this process.')
  const act = reporting(
    (run) =>
      async (...args) =>
        finish(await run(...args)),
  )
  const registering = { program: sandbox, act }
  addLifecycleCommands(registering)
  addUseCommands(registering)
  addProviderCommands(registering)
  addSecretCommands(registering)
  addUpkeepCommands(registering)
  addCodeCommand({ program, act })
  addChatCommand({ program, act })
  addWorkspacesCommand({ program, act })
}
