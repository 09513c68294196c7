import type { Behaviour } from '../types.ts'
import { badInput } from './bad-input.ts'
import { cancelling } from './cancelling.ts'
import { content } from './content.ts'
import { copies } from './copies.ts'
import { creating } from './creating.ts'
import { environment } from './environment.ts'
import { exits } from './exits.ts'
import { input } from './input.ts'
import { lifetimes } from './lifetimes.ts'
import { links } from './links.ts'
import { listing } from './listing.ts'
import { names } from './names.ts'
import { output } from './output.ts'
import { paths } from './paths.ts'
import { ports } from './ports.ts'
import { processes } from './processes.ts'
import { replay } from './replay.ts'
import { restricted } from './restricted.ts'
import { shells } from './shells.ts'
import { stopping } from './stopping.ts'
import { strays } from './strays.ts'
import { terminals } from './terminals.ts'
import { transfer } from './transfer.ts'
import { tree } from './tree.ts'
import { watching } from './watching.ts'

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
  ...lifetimes,
  ...ports,
  ...shells,
  ...terminals,
  ...badInput,
]
