import { once } from 'node:events'
import { existsSync, globSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import path from 'node:path'
import { runtimeNames } from '@sandkasten/sdk/provider'
import { ControlConnection } from '../egress/control.ts'
import { gatewayFolder } from '../egress/gateway-user.ts'
import { hostImagePrograms } from './runtime-images.ts'

/** Ends the gateway of a root without sandboxes, and removes its folder; it would end by itself in a minute. */
export async function removeGateway(root: string, runFolder = '/run/sandkasten'): Promise<void> {
  const folder = path.join(runFolder, gatewayFolder(root))
  const connection = await ControlConnection.open(path.join(folder, 'egress/control.sock')).catch(() => {})
  const answer = await connection?.request('hello', { version: 1 })
  if (typeof answer?.pid === 'number') process.kill(answer.pid, 'SIGKILL')
  await connection?.closed
  rmSync(folder, { recursive: true, force: true })
}

/**
 * Two servers at an address of this machine. A policy that names the address reaches them; no packet leaves the machine.
 */
export async function egressTargets() {
  const all = Object.values(networkInterfaces()).flat()
  const own = all.find((one) => one!.family === 'IPv4' && !one!.internal)?.address ?? '127.0.0.1'
  const servers = await Promise.all(
    [0, 1].map(async () => {
      const server = createServer((_, response) => response.end('ok')).listen(0, own)
      server.keepAliveTimeout = 120_000
      await once(server, 'listening')
      return server
    }),
  )
  const [allowed, denied] = servers.map((server) => ({
    host: own,
    port: (server.address() as AddressInfo).port,
  }))
  return {
    targets: { allowed: allowed!, denied: denied! },
    close: () => {
      for (const server of servers) server.close().closeAllConnections()
    },
  }
}

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

/** The runtimes that sandboxes of the image `host` have here. */
export async function hostRuntimes(): Promise<string[]> {
  return runtimeNames((await hostImagePrograms({})).programs)
}
