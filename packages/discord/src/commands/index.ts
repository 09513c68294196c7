import { abort } from './abort.ts'
import type { Command, FormCommand } from './command.ts'
import { diff } from './diff.ts'
import { model } from './model.ts'
import { pull } from './pull.ts'
import { sandbox } from './sandbox.ts'
import { sandboxAllow } from './sandbox-allow.ts'
import { sandboxConnect } from './sandbox-connect.ts'
import { sandboxDestroy } from './sandbox-destroy.ts'
import { sandboxFork } from './sandbox-fork.ts'
import { sandboxList } from './sandbox-list.ts'
import { sandboxSetup } from './sandbox-setup.ts'
import { sandboxSnapshot } from './sandbox-snapshot.ts'
import { sandboxStart } from './sandbox-start.ts'
import { sandboxStop } from './sandbox-stop.ts'
import { shell } from './shell.ts'
import { url } from './url.ts'

/** All slash commands, in the order of the documentation. */
export const commands: ReadonlyArray<Command | FormCommand> = [
  sandbox,
  sandboxList,
  sandboxConnect,
  sandboxDestroy,
  sandboxStop,
  sandboxStart,
  sandboxSnapshot,
  sandboxFork,
  sandboxSetup,
  sandboxAllow,
  diff,
  pull,
  abort,
  model,
  shell,
  url,
]

/** The definitions as Discord takes them: only in servers, for everybody; rights are checked by the bot. */
export function definitions(): unknown[] {
  return commands.map(({ definition }) => ({ type: 1, ...definition, contexts: [0], integration_types: [0] }))
}
