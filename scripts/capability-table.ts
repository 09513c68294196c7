/** The README's provider × capability table, made from what the providers say of themselves. */
import { dockerCapabilities, engineCapabilities } from '../packages/engine/src/provider/capabilities.ts'
import { daemonCapabilities } from '../packages/sdk/src/providers/daemon/index.ts'
import { daytonaCapabilities } from '../packages/sdk/src/providers/daytona/capabilities.ts'
import { e2bCapabilities } from '../packages/sdk/src/providers/e2b/index.ts'
import { localCapabilities } from '../packages/sdk/src/providers/local/capabilities.ts'
import { MemoryProvider } from '../packages/sdk/src/providers/memory/index.ts'
import { sshCapabilities } from '../packages/sdk/src/providers/ssh/capabilities.ts'
import { vercelCapabilities } from '../packages/sdk/src/providers/vercel/index.ts'
import type { Ability, Capabilities } from '../packages/sdk/src/spec/index.ts'

const meaning: Readonly<Record<Ability, string>> = {
  stdin: 'feed a running program',
  reattach: 'find processes again, with their output',
  shell: 'a shell that keeps its state',
  terminal: 'a terminal that can be resized',
  ports: 'reach a port inside',
  watch: 'be told of file changes',
  stop: 'stop and start, keeping the disk',
  pause: 'freeze and go on, keeping memory',
  snapshot: 'save the disk, create from it',
  fork: 'copies of a sandbox',
  lifetime: 'ends by itself; the end can be put off',
  activity: 'stops when idle; can be told that it is needed',
}

export function capabilityTable(): string {
  const everywhere = () => true
  const columns: Array<[string, Capabilities]> = [
    ['`local` (Linux)', localCapabilities('linux', everywhere)],
    ['`local` (macOS)', localCapabilities('darwin', everywhere)],
    ['`local` (Windows)', localCapabilities('win32', everywhere)],
    ['`engine` (oci)', engineCapabilities],
    ['`engine` (docker)', dockerCapabilities()],
    ['`daemon`', daemonCapabilities],
    ['`e2b`', e2bCapabilities],
    ['`ssh`', sshCapabilities],
    ['`daytona`', daytonaCapabilities],
    ['`vercel`', vercelCapabilities],
    ['`memory`', new MemoryProvider().capabilities],
  ]
  const rows = Object.entries(meaning).map(([ability, text]) => [
    `\`${ability}\``,
    text,
    ...columns.map(([, capabilities]) => capabilities[ability as Ability] ?? '–'),
  ])
  return table([['ability', 'what', ...columns.map(([name]) => name)], ...rows])
}

function table([head, ...rows]: string[][]): string {
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`
  return [line(head!), line(head!.map(() => '---')), ...rows.map(line)].join('\n')
}

if (import.meta.main) console.log(capabilityTable())
