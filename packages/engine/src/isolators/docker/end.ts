import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ContainerInspectInfo } from 'dockerode'
import type { SandboxEnd, SandboxPlace } from '../isolator.ts'

/** How a container's last life ended, as its daemon tells it; undefined while it runs, and when it has not run yet. */
export function endOf(info: ContainerInspectInfo, place: SandboxPlace): SandboxEnd | undefined {
  const { State } = info
  const endedAt = dateOf(State.FinishedAt)
  if (State.Running || endedAt === undefined || State.Status === 'created') return undefined
  const startedAt = dateOf(State.StartedAt)
  // The runner itself never ends with such a number: it is a signal.
  const signal = State.ExitCode > 128 && State.ExitCode < 128 + 65 ? State.ExitCode - 128 : undefined
  return {
    ...(signal === undefined ? { exitCode: State.ExitCode } : { signal }),
    killed: wasAskedFor(place, State.StartedAt),
    oom: State.OOMKilled,
    ...(startedAt ? { startedAt } : {}),
    endedAt,
    unwitnessed: false,
    errors: State.Error ?? '',
  }
}

/** The daemon does not remember who ended a container, so whoever is about to writes down which life it is. */
export function noteKill(place: SandboxPlace, startedAt: string): void {
  try {
    writeFileSync(noteOf(place), startedAt, { mode: 0o600 })
  } catch {
    // On a full disk killing must work all the same; then it is not known who asked for it.
  }
}

export function forgetKill(place: SandboxPlace): void {
  rmSync(noteOf(place), { force: true })
}

function wasAskedFor(place: SandboxPlace, startedAt: string): boolean {
  try {
    return readFileSync(noteOf(place), 'utf8') === startedAt
  } catch {
    return false
  }
}

const noteOf = ({ folder }: SandboxPlace) => join(folder, 'killed')

/** The zero of the daemon's language is no date. */
function dateOf(text: string | undefined): Date | undefined {
  const date = new Date(text ?? '')
  return Number.isNaN(date.getTime()) || date.getTime() <= 0 ? undefined : date
}
