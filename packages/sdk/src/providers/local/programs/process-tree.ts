import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { errnoOf } from '../../../folder/errors.ts'
import type { processMarker, sandboxMarker } from './environment.ts'

/**
 * Signals a command and all its descendants.
 *
 * A command leads a process group, so one `kill(-pid)` reaches most of it. A program that leaves the group (`setsid`, a
 * daemon) is found by the mark in its environment (Linux, through /proc) or as a descendant (elsewhere, through `ps`). A
 * program that leaves the group, is orphaned and clears its environment escapes: a local sandbox is not a jail.
 */
export interface Target {
  readonly pid?: number
  readonly marker?: { readonly name: typeof sandboxMarker | typeof processMarker; readonly value: string }
}

/** Processes from before a shell command began, which do not belong to it. */
export interface Before {
  readonly shell: number
  readonly pids: ReadonlySet<number>
}

/** Sends the signal once to each current process. True if there was one. */
export async function signalTree(target: Target, signal: NodeJS.Signals, before?: Before): Promise<boolean> {
  if (process.platform === 'win32') return target.pid !== undefined && killWindowsTree(target.pid)
  const all = await membersOf(target)
  const members = before ? all.filter((member) => isYounger(member, all, before)) : all
  if (target.pid !== undefined) send(-target.pid, signal)
  for (const { pid, group } of members) if (group !== target.pid) send(pid, signal)
  return members.length > 0
}

/**
 * Sends SIGKILL until no process is left. The next round catches a process that was just forked. A process in the middle of
 * an exec has no environment, so the tree counts as empty only after two rounds that find nothing.
 */
export async function killTree(target: Target, before?: Before): Promise<void> {
  let quiet = 0
  for (let round = 0; round < 100 && quiet < 2; round += 1) {
    quiet = (await signalTree(target, 'SIGKILL', before)) ? 0 : quiet + 1
    if (process.platform === 'win32') return
    if (quiet < 2) await new Promise((resolve) => setTimeout(resolve, Math.min(1 + round, 20)))
  }
}

/** Call it before a shell command begins. Undefined without /proc. */
export async function beforeCommand(shell: number): Promise<Before | undefined> {
  if (process.platform !== 'linux') return undefined
  return { shell, pids: new Set((await readdir('/proc')).map(Number).filter((pid) => pid > 0)) }
}

export async function childrenOf(pid: number): Promise<number[]> {
  if (process.platform === 'linux') {
    const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => undefined)
    if (text !== undefined) return text.split(' ').filter(Boolean).map(Number)
  }
  return (await processTable()).filter((row) => row.parent === pid).map((row) => row.pid)
}

interface Member {
  readonly pid: number
  readonly parent: number
  readonly group: number
}

async function membersOf(target: Target): Promise<Member[]> {
  if (process.platform !== 'linux') return target.pid === undefined ? [] : membersByDescent(target.pid)
  const { marker } = target
  const entry = marker && Buffer.from(`\0${marker.name}=${marker.value}\0`)
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const found = await Promise.all(pids.map((pid) => memberOf(pid, target.pid, entry)))
  return found.filter((member) => member !== undefined)
}

/** Processes in the group or with the mark. Skips zombies, processes of other users and ended processes. */
async function memberOf(
  pid: string,
  leader: number | undefined,
  entry: Buffer | undefined,
): Promise<Member | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    const [state, parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (state === 'Z') return undefined
    const member = { pid: Number(pid), parent: Number(parent), group: Number(group) }
    if (member.group === leader) return member
    if (!entry) return undefined
    const environ = await readFile(`/proc/${pid}/environ`)
    return Buffer.concat([Buffer.from('\0'), environ]).includes(entry) ? member : undefined
  } catch {
    return undefined
  }
}

/** Whether it and all its ancestors up to the shell are new: descendants of an older job belong to that job. */
function isYounger(member: Member, all: readonly Member[], { shell, pids }: Before): boolean {
  let at: Member | undefined = member
  for (let steps = 0; at && steps <= all.length; steps += 1) {
    if (pids.has(at.pid)) return false
    const { parent }: Member = at
    if (parent === shell) return true
    at = all.find(({ pid }) => pid === parent)
  }
  return true
}

async function membersByDescent(root: number): Promise<Member[]> {
  const rows = await processTable()
  const found = new Set([root])
  for (let size = 0; size !== found.size; ) {
    size = found.size
    for (const { pid, parent, group } of rows) if (found.has(parent) || group === root) found.add(pid)
  }
  return rows.filter(({ pid }) => found.has(pid))
}

/** All running processes, without zombies. */
async function processTable(): Promise<Member[]> {
  const { stdout } = await promisify(execFile)('ps', ['-axo', 'pid=,ppid=,pgid=,stat='])
  return stdout
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([pid, , , state]) => pid && !state?.startsWith('Z'))
    .map(([pid, parent, group]) => ({ pid: Number(pid), parent: Number(parent), group: Number(group) }))
}

function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (errnoOf(error) === 'ESRCH') return false
    // EPERM: the process exists but changed its user (setuid). Only root can signal it.
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
