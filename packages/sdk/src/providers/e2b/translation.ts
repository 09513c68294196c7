import type { CreateSpec } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import { portsFrom, portsText } from '../../shared/port-list.ts'
import type { SandboxInfo, SandboxStatus } from '../../spec/index.ts'
import type { VendorListed } from './sdk.ts'

/** Translates between E2B and us. Its metadata holds our labels and a few hidden keys. */

/** Marks the sandboxes that `list()` returns. */
export const ownMark = 'sandkasten'
const peopleLabel = 'sandkasten.label'
const createdLabel = 'sandkasten.created'
const portsLabel = 'sandkasten.ports'
/** Identifies one create call, to find its sandbox if the response is lost. */
export const makingLabel = 'sandkasten.making'
/** The sandbox stops at the end of its lifetime. The vendor calls that `paused` too. */
const stopsLabel = 'sandkasten.stops'

export function metadataOf(
  { labels, label, ports }: CreateSpec,
  options: { stops: boolean },
): Record<string, string> {
  const reserved = Object.keys(labels).find((key) => key === ownMark || key.startsWith(`${ownMark}.`))
  if (reserved !== undefined)
    throw new SandboxError('invalid_argument', `The label ${reserved} is reserved for this library.`, {
      provider: 'e2b',
      hint: 'Choose a name that does not begin with sandkasten.',
    })
  return {
    ...labels,
    [ownMark]: '1',
    [makingLabel]: randomId(),
    [createdLabel]: new Date().toISOString(),
    ...(options.stops ? { [stopsLabel]: '1' } : {}),
    ...(label === undefined ? {} : { [peopleLabel]: label }),
    ...(ports === undefined ? {} : { [portsLabel]: portsText(ports) }),
  }
}

export function portsOf({ metadata }: VendorListed): number[] {
  return portsFrom(metadata[portsLabel])
}

export function infoOf(vendor: VendorListed, rest: 'paused' | 'stopped' | undefined): SandboxInfo {
  const { sandboxId, metadata, state } = vendor
  const created = Date.parse(metadata[createdLabel] ?? '')
  const label = metadata[peopleLabel]
  return {
    id: `e2b:${sandboxId}`,
    sandboxId,
    status: statusOf(vendor, rest),
    rawStatus: state,
    label,
    labels: Object.fromEntries(
      Object.entries(metadata).filter(([key]) => key !== ownMark && !key.startsWith(`${ownMark}.`)),
    ),
    createdAt: Number.isFinite(created) ? new Date(created) : undefined,
    expiresAt: Number.isFinite(vendor.endAt.getTime()) ? vendor.endAt : undefined,
  }
}

/** The vendor reports `paused` with and without kept memory. We can tell them apart only if this provider did it. */
function statusOf(
  { state, metadata, endAt }: VendorListed,
  rest: 'paused' | 'stopped' | undefined,
): SandboxStatus {
  if (state === 'running') return 'running'
  if (state !== 'paused') return 'unknown'
  if (rest) return rest
  return metadata[stopsLabel] === '1' && endAt.getTime() <= Date.now() ? 'stopped' : 'paused'
}

/** Whether the id is well-formed. Any other text could form another path of the vendor's API. */
export function isId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/.test(id)
}

export function notFound(sandboxId: string): SandboxError {
  return new SandboxError('not_found', `The sandbox ${sandboxId} does not exist.`, {
    provider: 'e2b',
    sandboxId,
  })
}

/** Go's names of signals, which the vendor uses. */
export const signalNames: Readonly<Record<string, readonly [name: string, number: number]>> = {
  hangup: ['SIGHUP', 1],
  interrupt: ['SIGINT', 2],
  quit: ['SIGQUIT', 3],
  'illegal instruction': ['SIGILL', 4],
  'trace/breakpoint trap': ['SIGTRAP', 5],
  aborted: ['SIGABRT', 6],
  'bus error': ['SIGBUS', 7],
  'floating point exception': ['SIGFPE', 8],
  killed: ['SIGKILL', 9],
  'user defined signal 1': ['SIGUSR1', 10],
  'segmentation fault': ['SIGSEGV', 11],
  'user defined signal 2': ['SIGUSR2', 12],
  'broken pipe': ['SIGPIPE', 13],
  'alarm clock': ['SIGALRM', 14],
  terminated: ['SIGTERM', 15],
}

/** Parses how a program ended: `exit status 3`, `signal: killed (core dumped)`. */
export function exitOf({ exitCode, status }: { exitCode: number; status: string }): {
  exitCode: number
  signal?: string
} {
  const word = /^signal: (.+?)(?: \(core dumped\))?$/.exec(status)?.[1]
  if (word === undefined) return { exitCode }
  const [signal, number] = signalNames[word] ?? [word, 0]
  return { exitCode: 128 + number, signal }
}
