/** Destroyed means: no process, no mount, no control group, no folder. Looked at from outside, without asking the engine. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { groupRoots, isAlive, processes, readOr } from './workplace.ts'

export interface Remains {
  /** Its processes, as the host numbers them: the shim, the runner, and what runs inside. */
  readonly pids: readonly number[]
  /** Call it as soon as destroying has returned: what goes away a moment later is left too. */
  assertNone(): void
}

export interface Whose {
  readonly sandboxId: string
  readonly folder: string
  readonly runFolder: string
  /** The parent control group. */
  readonly group: string
}

const RANGE_SIZE = 65536

/** Taken while the sandbox lives, because only then its processes and its ids are known. */
export function remainsOf({ sandboxId, folder, runFolder, group }: Whose): Remains {
  const shim = JSON.parse(readOr(join(folder, 'disk/shim.json')) ?? '{}') as { pid?: number; group?: string }
  const groups = groupRoots().map((root) => join(root, group, shim.group ?? 'unknown'))
  const firstId = Number(readOr(join(folder, 'disk/range')))
  if (shim.pid === undefined || !firstId || !groups.some(existsSync))
    throw new Error(
      `the sandbox ${sandboxId} is not where it was expected, so nobody could say what is left of it`,
    )
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

/** Mounts in anybody's namespace, control groups and sockets. Slow with many processes: for the end of a stage. */
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

/** What waits for the next sandbox, of which nothing exists yet: a shim, and the children that it has prepared. */
function isSpare(pid: number): boolean {
  const parent = /^PPid:\s+(\d+)/m.exec(readOr(`/proc/${pid}/status`) ?? '')?.[1]
  return [pid, parent].some((one) => readOr(`/proc/${one}/comm`)?.trim() === 'shim-spare')
}

function membersOf(path: string): number[] {
  return (readOr(join(path, 'cgroup.procs')) ?? '').split('\n').filter(Boolean).map(Number)
}

/** A number alone may be somebody else's by now. */
function startOf(pid: number): string | undefined {
  return readOr(`/proc/${pid}/stat`)?.split(') ').at(-1)?.split(' ')[19]
}

/** Tests that run beside us may use the same ids, in control groups of their own. Whoever escaped from ours is in those of this process. */
function isOurs(pid: number, group: string): boolean {
  const groups = readOr(`/proc/${pid}/cgroup`)
  return groups === readOr('/proc/self/cgroup') || groups?.includes(`/${group}/`) === true
}

function isOfRange(pid: number, firstId: number): boolean {
  const uid = Number(/^Uid:\s+(\d+)/m.exec(readOr(`/proc/${pid}/status`) ?? '')?.[1])
  return uid >= firstId && uid < firstId + RANGE_SIZE
}
