import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { processMarker, sandboxMarker } from './environment.ts'
import { errnoOf } from './errors.ts'

/**
 * Signals to everything that a command started, not only to the command.
 *
 * A command leads a process group, so one `kill(-pid)` reaches most of it. A program that leaves the group
 * (`setsid`, a daemon) is found by the marker in its environment (Linux, through /proc) or as a descendant
 * (elsewhere, through `ps`). A program that leaves the group, is orphaned and wipes its environment escapes: a local
 * sandbox is no jail.
 */
export interface Target {
  /** The leader of the process group, if it is known. */
  readonly pid?: number
  readonly marker?: { readonly name: typeof sandboxMarker | typeof processMarker; readonly value: string }
}

/** Sends the signal once to all that is there now. True if anything was. */
export async function signalTree(target: Target, signal: NodeJS.Signals): Promise<boolean> {
  if (process.platform === 'win32') return target.pid !== undefined && killWindowsTree(target.pid)
  const pids = await membersOf(target)
  const grouped = target.pid !== undefined && send(-target.pid, signal)
  let reached = grouped
  for (const pid of pids) if (send(pid, signal)) reached = true
  return reached
}

/** SIGKILL until nothing is left; a fork that was under way is caught by the next round. */
export async function killTree(target: Target): Promise<void> {
  for (let round = 0; round < 50; round += 1) {
    if (!(await signalTree(target, 'SIGKILL'))) return
    if (process.platform === 'win32') return
    await new Promise((resolve) => setTimeout(resolve, Math.min(1 + round, 20)))
  }
}

/** The direct children of a process. */
export async function childrenOf(pid: number): Promise<number[]> {
  if (process.platform === 'linux') {
    const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => undefined)
    if (text !== undefined) return text.split(' ').filter(Boolean).map(Number)
  }
  return (await processTable()).filter((row) => row.parent === pid).map((row) => row.pid)
}

async function membersOf(target: Target): Promise<number[]> {
  if (process.platform !== 'linux') return target.pid === undefined ? [] : descendantsOf(target.pid)
  if (!target.marker) return []
  const entry = Buffer.from(`\0${target.marker.name}=${target.marker.value}\0`)
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const found = await Promise.all(pids.map(async (pid) => ((await hasEntry(pid, entry)) ? Number(pid) : undefined)))
  return found.filter((pid) => pid !== undefined && pid !== process.pid) as number[]
}

async function hasEntry(pid: string, entry: Buffer): Promise<boolean> {
  try {
    // Another user's process, one that is gone, and a zombie have no environment that could be read.
    const environ = await readFile(`/proc/${pid}/environ`)
    return Buffer.concat([Buffer.from('\0'), environ]).includes(entry)
  } catch {
    return false
  }
}

async function descendantsOf(root: number): Promise<number[]> {
  const rows = await processTable()
  const found = new Set([root])
  for (let size = 0; size !== found.size; ) {
    size = found.size
    for (const { pid, parent, group } of rows) if (found.has(parent) || group === root) found.add(pid)
  }
  found.delete(root)
  return [...found]
}

async function processTable(): Promise<Array<{ pid: number; parent: number; group: number }>> {
  const { stdout } = await promisify(execFile)('ps', ['-axo', 'pid=,ppid=,pgid='])
  return stdout.trim().split('\n').map((line) => {
    const [pid, parent, group] = line.trim().split(/\s+/).map(Number)
    return { pid: pid!, parent: parent!, group: group! }
  })
}

function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (errnoOf(error) === 'ESRCH') return false
    // EPERM: it is there, but not ours any more (setuid). It cannot be reached by anyone but root.
    if (errnoOf(error) === 'EPERM') return false
    throw error
  }
}

async function killWindowsTree(pid: number): Promise<boolean> {
  try {
    await promisify(execFile)('taskkill', ['/pid', String(pid), '/T', '/F'])
    return true
  } catch {
    return false
  }
}
