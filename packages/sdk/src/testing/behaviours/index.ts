import type { Behaviour } from '../types.ts'
import { badInput } from './bad-input.ts'
import { cancelling } from './commands/cancelling.ts'
import { environment } from './commands/environment.ts'
import { exits } from './commands/exits.ts'
import { input } from './commands/input.ts'
import { output } from './commands/output.ts'
import { processes } from './commands/processes.ts'
import { replay } from './commands/replay.ts'
import { shells } from './commands/shells.ts'
import { strays } from './commands/strays.ts'
import { terminals } from './commands/terminals.ts'
import { content } from './files/content.ts'
import { lines } from './files/lines.ts'
import { links } from './files/links.ts'
import { paths } from './files/paths.ts'
import { transfer } from './files/transfer.ts'
import { tree } from './files/tree.ts'
import { watching } from './files/watching.ts'
import { copies } from './sandboxes/copies.ts'
import { creating } from './sandboxes/creating.ts'
import { lifetimes } from './sandboxes/lifetimes.ts'
import { listing } from './sandboxes/listing.ts'
import { names } from './sandboxes/names.ts'
import { network } from './sandboxes/network.ts'
import { ports } from './sandboxes/ports.ts'
import { restricted } from './sandboxes/restricted.ts'
import { stopping } from './sandboxes/stopping.ts'
import { users } from './sandboxes/users.ts'

export const behaviours: readonly Behaviour[] = [
  ...exits,
  ...output,
  ...replay,
  ...input,
  ...environment,
  ...cancelling,
  ...processes,
  ...strays,
  ...content,
  ...lines,
  ...tree,
  ...links,
  ...paths,
  ...transfer,
  ...watching,
  ...restricted,
  ...creating,
  ...names,
  ...listing,
  ...stopping,
  ...copies,
  ...users,
  ...lifetimes,
  ...ports,
  ...network,
  ...shells,
  ...terminals,
  ...badInput,
]
