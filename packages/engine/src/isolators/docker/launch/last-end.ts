import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ContainerInspectInfo } from 'dockerode'
import type { SandboxEnd, SandboxPlace } from '../../isolator.ts'

/** How a container's last incarnation ended, by its daemon. Undefined while it runs or if it has not run yet. */
export function endOf(
  info: ContainerInspectInfo,
  place: SandboxPlace,
  kind: 'docker' | 'podman',
): SandboxEnd | undefined {
  const { State } = info
  const endedAt = dateOf(State.FinishedAt)
  if (State.Running || State.Paused || endedAt === undefined || State.Status === 'created') return undefined
  const startedAt = dateOf(State.StartedAt)
  // The runner never exits with such a code, so it is a signal.
  const signal = State.ExitCode > 128 && State.ExitCode < 128 + 65 ? State.ExitCode - 128 : undefined
  const note = readNote(place, State.StartedAt)
  const oom = oomOf(State.OOMKilled, note?.oomKills, kind)
  return {
    ...(signal === undefined ? { exitCode: State.ExitCode } : { signal }),
    killed: note !== undefined,
    oom,
    oomKills: note?.oomKills,
    startedAt,
    endedAt,
    unwitnessed: false,
    errors: State.Error ?? '',
  }
}

/** A negative answer of Podman is unreliable: it checks only the first process, and not always in time. */
function oomOf(told: boolean, count: number | undefined, kind: 'docker' | 'podman'): boolean | undefined {
  if (told || (count ?? 0) > 0) return true
  return kind === 'docker' || count === 0 ? false : undefined
}

interface Note {
  /** The start time of the incarnation. */
  readonly startedAt: string
  /** The kernel's count of out-of-memory kills, because the group is gone afterwards. */
  readonly oomKills?: number
}

/** Notes that we end a container, because the daemon does not remember it. */
export function noteKill(place: SandboxPlace, note: Note): void {
  try {
    writeFileSync(noteOf(place), JSON.stringify(note), { mode: 0o600 })
  } catch {
    // Killing must work on a full disk too; then the end does not show as requested.
  }
}

export function forgetKill(place: SandboxPlace): void {
  rmSync(noteOf(place), { force: true })
}

function readNote(place: SandboxPlace, startedAt: string): Note | undefined {
  try {
    const note = JSON.parse(readFileSync(noteOf(place), 'utf8')) as Note
    return note.startedAt === startedAt ? note : undefined
  } catch {
    return undefined
  }
}

const noteOf = ({ folder }: SandboxPlace) => join(folder, 'killed.json')

/** Go's zero time means that there is no date. */
function dateOf(text: string | undefined): Date | undefined {
  const date = new Date(text ?? '')
  return Number.isNaN(date.getTime()) || date.getTime() <= 0 ? undefined : date
}
