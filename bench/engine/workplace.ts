/** The folder, control groups and mounts of one run of the benchmark, all under a unique name. */
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cleanup } from '../cleanup.ts'

export interface Workplace {
  /** Also the parent control group of crun's and Docker's containers. */
  readonly name: string
  readonly group: string
  /** World-accessible, because a container's root is an unprivileged user on the host. */
  readonly folder: string
  readonly cleanup: Cleanup
}

export function openWorkplace(cleanup: Cleanup): Workplace {
  const name = `skbench-${randomBytes(3).toString('hex')}`
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  chmodSync(folder, 0o755)
  cleanup.add(`the folder ${folder}`, () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  const group = `${name}-engine`
  for (const made of [name, group]) cleanup.add(`the control groups ${made}`, () => removeGroups(made))
  return { name, group, folder, cleanup }
}

export function folderIn({ folder }: Workplace, name: string): string {
  const path = join(folder, name)
  mkdirSync(path, { recursive: true, mode: 0o755 })
  return path
}

export function groupRoots(): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(' ')[4]!)
}

export function processes(): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry) && isAlive(Number(entry)))
    .map(Number)
}

export function isAlive(pid: number): boolean {
  return /^State:\s+[^ZX]/m.test(readOr(`/proc/${pid}/status`) ?? '')
}

export function readOr(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

export async function end(find: () => number[]): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const found = find()
    if (found.length === 0) return
    for (const pid of found) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It ended by itself.
      }
    }
    await sleep(20)
  }
  throw new Error(`processes ${find().join(', ')} do not end`)
}

async function removeGroups(name: string): Promise<void> {
  await end(() => processes().filter((pid) => readOr(`/proc/${pid}/cgroup`)?.includes(`/${name}/`)))
  for (const root of groupRoots()) removeGroup(join(root, name))
}

function removeGroup(path: string): void {
  if (!existsSync(path)) return
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isDirectory()) removeGroup(join(path, entry.name))
  rmdirSync(path)
}
