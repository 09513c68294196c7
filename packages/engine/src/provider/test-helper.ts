import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'

/** Remains of a sandbox on this machine: processes that name it, mounts, control groups, sockets. */
export function leftoversOf(sandboxId: string): string[] {
  const left: string[] = []
  for (const pid of pids()) {
    // A shim mounts its sandbox's disk in a mount namespace of its own.
    for (const file of ['environ', 'cmdline', 'mountinfo']) {
      if (readOr(`/proc/${pid}/${file}`).includes(sandboxId)) left.push(`process ${pid} (${file})`)
    }
  }
  // A group's name has the pid of its shim, not the sandbox. A group whose shim is gone belongs to some destroyed
  // sandbox.
  for (const group of globSync('/sys/fs/cgroup/{,*/}sandkasten/*-*')) {
    const shim = /(\d+)-\d+$/.exec(group)?.[1]
    if (shim !== undefined && !readOr(`/proc/${shim}/comm`).startsWith('shim') && existsSync(group))
      left.push(`control group ${group}`)
  }
  if (existsSync(`/run/sandkasten/${sandboxId}`)) left.push('its sockets')
  return left
}

/** The pids of a sandbox's shim on the host. */
export function shimsOf(sandboxId: string): number[] {
  return pids().filter(
    (pid) =>
      readOr(`/proc/${pid}/comm`).startsWith('shim') && readOr(`/proc/${pid}/mountinfo`).includes(sandboxId),
  )
}

/** The pids of a sandbox's runner on the host. The runner is PID 1 inside and the child of its shim. */
export function runnersOf(sandboxId: string): number[] {
  const shims = shimsOf(sandboxId)
  return pids().filter(
    (pid) =>
      shims.includes(Number(/^PPid:\s+(\d+)/m.exec(readOr(`/proc/${pid}/status`))?.[1])) &&
      readOr(`/proc/${pid}/cmdline`).includes('sandkasten-runner'),
  )
}

function pids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
