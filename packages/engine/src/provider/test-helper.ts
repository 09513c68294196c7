import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'

/** What is left on this machine of a sandbox: processes that name it, mounts, control groups, sockets. */
export function leftoversOf(sandboxId: string): string[] {
  const left: string[] = []
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    for (const file of ['environ', 'cmdline', 'cgroup']) {
      if (readOr(`/proc/${pid}/${file}`).includes(sandboxId)) left.push(`process ${pid} (${file})`)
    }
  }
  if (readOr('/proc/self/mountinfo').includes(sandboxId)) left.push('a mount')
  left.push(...globSync(`/sys/fs/cgroup/**/*${sandboxId}*`).map((file) => `control group ${file}`))
  if (existsSync(`/run/sandkasten/${sandboxId}`)) left.push('its sockets')
  return left
}

/** The host's numbers of a sandbox's runner: PID 1 inside, known by its control group. */
export function runnersOf(sandboxId: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids
    .filter((pid) => readOr(`/proc/${pid}/cgroup`).includes(sandboxId))
    .filter((pid) => readOr(`/proc/${pid}/cmdline`).includes('sandkasten-runner'))
    .map(Number)
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
