/** Prints the table of providers and abilities in docs/providers.md, from each provider's declaration. */
import { dockerCapabilities, engineCapabilities } from '../packages/engine/src/provider/capabilities.ts'
import { daemonCapabilities } from '../packages/sdk/src/providers/daemon/index.ts'
import { daytonaCapabilities } from '../packages/sdk/src/providers/daytona/capabilities.ts'
import { e2bCapabilities } from '../packages/sdk/src/providers/e2b/index.ts'
import { hopxCapabilities } from '../packages/sdk/src/providers/hopx/capabilities.ts'
import { localCapabilities } from '../packages/sdk/src/providers/local/capabilities.ts'
import { MemoryProvider } from '../packages/sdk/src/providers/memory/index.ts'
import { spritesCapabilities } from '../packages/sdk/src/providers/sprites/capabilities.ts'
import { sshCapabilities } from '../packages/sdk/src/providers/ssh/capabilities.ts'
import { vercelCapabilities } from '../packages/sdk/src/providers/vercel/index.ts'
import type { Ability, Capabilities } from '../packages/sdk/src/spec/index.ts'

const abilities: Readonly<Record<Ability, true>> = {
  stdin: true,
  mergedOutput: true,
  orderedOutput: true,
  reattach: true,
  shell: true,
  terminal: true,
  ports: true,
  watch: true,
  stop: true,
  pause: true,
  snapshot: true,
  fork: true,
  lifetime: true,
  activity: true,
  egress: true,
}

export function capabilityTable(): string {
  const everywhere = () => true
  const providers: Array<[string, Capabilities]> = [
    ['`engine` (oci)', engineCapabilities],
    ['`engine` (docker)', dockerCapabilities()],
    ['`daemon`', daemonCapabilities],
    ['`local` (Linux)', localCapabilities('linux', everywhere)],
    ['`local` (macOS)', localCapabilities('darwin', everywhere)],
    ['`local` (Windows)', localCapabilities('win32', everywhere)],
    ['`ssh`', sshCapabilities],
    ['`e2b`', e2bCapabilities],
    ['`daytona`', daytonaCapabilities],
    ['`vercel`', vercelCapabilities],
    ['`sprites`', spritesCapabilities],
    ['`hopx`', hopxCapabilities],
    ['`memory`', new MemoryProvider().capabilities],
  ]
  const columns = Object.keys(abilities) as Ability[]
  const symbols = { native: '✓', emulated: '◐' } as const
  const rows = providers.map(([name, capabilities]) => [
    name,
    ...columns.map((ability) => (capabilities[ability] ? symbols[capabilities[ability]] : '–')),
  ])
  return table([['provider', ...columns], ...rows])
}

function table([head, ...rows]: string[][]): string {
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`
  return [line(head!), line(head!.map(() => '---')), ...rows.map(line)].join('\n')
}

if (import.meta.main) console.log(capabilityTable())
