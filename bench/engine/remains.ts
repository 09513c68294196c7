/**
 * After a destroy there must be no process, mount, control group or folder. Checked from outside, without the engine.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { groupRoots, isAlive, processes, readOr } from './workplace.ts'

export interface Remains {
  /** Host pids of the shim, the runner and the processes inside. */
  readonly pids: readonly number[]
  /** Call it directly after the destroy: anything that disappears later counts as left. */
  assertNone(): void
}

export interface Whose {
  readonly sandboxId: string
  readonly folder: string
  readonly runFolder: string
  readonly group: string
}

const RANGE_SIZE = 65536

/** Call it while the sandbox lives, because its processes and ids are known only then. */
export function remainsOf({ sandboxId, folder, runFolder, group }: Whose): Remains {
  const shim = JSON.parse(readOr(join(folder, 'disk/shim.json')) ?? '{}') as { pid?: number; group?: string }
  const groups = groupRoots().map((root) => join(root, group, shim.group ?? 'unknown'))
  const firstId = Number(readOr(join(folder, 'disk/range')))
  if (shim.pid === undefined || !firstId || !groups.some(existsSync))
    throw new Error(`the sandbox ${sandboxId} is not in the expected place, so leftovers cannot be detected`)
  const lived = new Map([shim.pid, ...groups.flatMap(membersOf)].map((pid) => [pid, startOf(pid)]))
  return {
    pids: [...lived.keys()],
    assertNone() {
      const left = [
        ...groups.filter(existsSync),
        ...[folder, join(runFolder, sandboxId)].filter(existsSync),
        ...[...lived]
          .filter(([pid, start]) => isAlive(pid) && startOf(pid) === start)
          .map(([pid]) => `process ${pid}`),
        ...processes()
          .filter((pid) => isOfRange(pid, firstId) && isOurs(pid, group))
          .map((pid) => `process ${pid} of its user`),
        ...(readOr('/proc/self/mountinfo')?.includes(sandboxId) ? ['a mount'] : []),
      ]
      if (left.length > 0) throw new Error(`of the sandbox ${sandboxId} is left: ${left.join(', ')}`)
    },
  }
}

/**
 * Checks mounts in all namespaces, control groups and sockets. Slow with many processes: call it at the end of a
 * stage.
 */
export function assertNothingLeft(group: string, runFolder: string): void {
  const all = processes().filter((pid) => pid !== process.pid && !isSpare(pid))
  const left = [
    ...all
      .filter((pid) => readOr(`/proc/${pid}/mountinfo`)?.includes(`${runFolder}/`))
      .map((pid) => `a mount in process ${pid}`),
    ...all
      .filter((pid) => readOr(`/proc/${pid}/cgroup`)?.includes(`/${group}/`))
      .map((pid) => `process ${pid}`),
  ]
  if (left.length === 0) return
  throw new Error(
    `after all sandboxes were destroyed there is left: ${left.slice(0, 4).join(', ')}; ${left.length} in all`,
  )
}

/** A prepared shim with its children, which waits for the next sandbox. */
function isSpare(pid: number): boolean {
  const parent = /^PPid:\s+(\d+)/m.exec(readOr(`/proc/${pid}/status`) ?? '')?.[1]
  return [pid, parent].some((one) => readOr(`/proc/${one}/comm`)?.trim() === 'shim-spare')
}

function membersOf(path: string): number[] {
  return (readOr(join(path, 'cgroup.procs')) ?? '').split('\n').filter(Boolean).map(Number)
}

/** A pid may have been reused, so its start time is compared too. */
function startOf(pid: number): string | undefined {
  return readOr(`/proc/${pid}/stat`)?.split(') ').at(-1)?.split(' ')[19]
}

/**
 * Concurrent tests may use the same ids in other control groups. A process that escaped from ours is in the control
 * group of this process.
 */
function isOurs(pid: number, group: string): boolean {
  const groups = readOr(`/proc/${pid}/cgroup`)
  return groups === readOr('/proc/self/cgroup') || groups?.includes(`/${group}/`) === true
}

function isOfRange(pid: number, firstId: number): boolean {
  const uid = Number(/^Uid:\s+(\d+)/m.exec(readOr(`/proc/${pid}/status`) ?? '')?.[1])
  return uid >= firstId && uid < firstId + RANGE_SIZE
}
