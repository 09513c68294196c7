/** A Docker daemon of our own: nothing of a daemon that may be here already is used, seen or changed. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findProgram } from '../machine.ts'
import { DockerApi } from './docker-api.ts'
import { end, folderIn, isAlive, processes, type Workplace } from './workplace.ts'

const START_MS = 30_000
const STOP_MS = 15_000

/** Why Docker cannot take part; undefined when it can. */
export function dockerMissing(): string | undefined {
  if (process.getuid?.() !== 0) return 'a private dockerd needs root'
  const missing = ['dockerd', 'containerd', 'runc'].find((name) => !findProgram(name))
  return missing ? `${missing} is not installed: apt-get install docker.io` : undefined
}

/**
 * In a mount namespace where `/run` and `/etc/docker` are empty: containerd keeps sockets in `/run/containerd` whatever it is told, and
 * dockerd would talk to a containerd of the machine if it found one. Its mounts end with it. Should we be killed, it gets SIGTERM.
 */
const SCRIPT = `
set -e
mount -t tmpfs -o mode=755 tmpfs /run
if [ -d /etc/docker ]; then mount -t tmpfs -o mode=755 tmpfs /etc/docker; fi
exec dockerd "$@"`

export async function startDockerd(place: Workplace): Promise<DockerApi> {
  const folder = folderIn(place, 'docker')
  const socket = join(folder, 'docker.sock')
  mkdirSync(join(folder, 'exec'), { mode: 0o711 })
  writeFileSync(join(folder, 'daemon.json'), '{}')
  const args = [
    ...['-H', `unix://${socket}`],
    ...['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec')],
    ...['--pidfile', join(folder, 'pid'), '--config-file', join(folder, 'daemon.json')],
    ...['--bridge=none', '--iptables=false', '--ip6tables=false', '--storage-driver', 'overlay2'],
    ...['--cgroup-parent', `/${place.name}`],
  ]
  const log = openSync(join(folder, 'log'), 'a')
  const child = spawn(
    'setpriv',
    ['--pdeathsig', 'TERM', 'unshare', '-m', '--propagation', 'private', 'sh', '-c', SCRIPT, 'sh', ...args],
    { stdio: ['ignore', log, log], detached: true },
  )
  closeSync(log)
  const api = new DockerApi(socket)
  place.cleanup.add('the private dockerd', () => stop(child, api))
  await ready(child, api, join(folder, 'log'))
  return api
}

async function ready(child: ChildProcess, api: DockerApi, log: string): Promise<void> {
  const deadline = Date.now() + START_MS
  while (Date.now() < deadline && child.exitCode === null) {
    try {
      await api.call('GET', '/_ping')
      return
    } catch {
      await sleep(50)
    }
  }
  throw new Error(
    `dockerd did not start:\n${readFileSync(log, 'utf8').trim().split('\n').slice(-5).join('\n')}`,
  )
}

/** First as it should be; then whatever is left, found by its mount namespace: containerd's shims outlive it on purpose. */
async function stop(child: ChildProcess, api: DockerApi): Promise<void> {
  api.close()
  const namespace = child.pid === undefined ? undefined : namespaceOf(child.pid)
  if (namespace === namespaceOf(process.pid)) throw new Error('dockerd is not in a namespace of its own')
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await Promise.race([exited, sleep(STOP_MS, undefined, { ref: false })])
    if (child.pid !== undefined && isAlive(child.pid)) child.kill('SIGKILL')
  }
  if (namespace !== undefined) await end(() => processes().filter((pid) => namespaceOf(pid) === namespace))
}

function namespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`)
  } catch {
    return undefined
  }
}
