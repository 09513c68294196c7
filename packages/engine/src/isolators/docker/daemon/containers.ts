import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type Docker from 'dockerode'
import type { Container, ContainerInfo, ContainerInspectInfo } from 'dockerode'
import { statusOf } from './errors.ts'
import { filterFor, type Use } from './labels.ts'

/** The ways in which a container ends. */

/** Resolves when nothing of it runs, with what the daemon then knows. At once and for good: nobody inside is asked. */
export async function killContainer(container: Container): Promise<ContainerInspectInfo | undefined> {
  let info = await inspect(container)
  const life = info?.State.StartedAt
  // What is frozen cannot die, and Podman would wait for it in vain.
  if (info?.State.Paused) await container.unpause().catch(() => {})
  if (!info || !lives(info)) return info
  await container.kill({ signal: 'SIGKILL' }).catch(async (cause) => {
    // It may have ended meanwhile, or be gone; daemons say so in different ways.
    const now = await inspect(container)
    if (now && lives(now)) throw cause
  })
  // Some daemons answer when the signal is sent.
  for (let waited = 0; waited < 500; waited += 1) {
    info = await inspect(container)
    // Somebody may even have started it again.
    if (!info || !lives(info) || info.State.StartedAt !== life) return info
    await sleep(20)
  }
  throw new SandboxError('timeout', `container ${container.id} was killed, and runs on`)
}

/** Removes it, running or not, with the volumes that its image may have asked for. Resolves when it is gone, also when somebody else removes it. */
export async function removeContainer(container: Container): Promise<void> {
  for (let waited = 0; waited < 500; waited += 1) {
    try {
      await container.remove({ force: true, v: true })
    } catch (cause) {
      // In the middle of being removed by another: it goes on until it is not there.
      if (statusOf(cause) !== 404 && statusOf(cause) !== 409) throw cause
    }
    if ((await inspect(container)) === undefined) return
    await sleep(20)
  }
  throw new SandboxError('timeout', `container ${container.id} was removed, and is still there`)
}

/** What is frozen does not run for every daemon, but it has not ended. */
export function lives({ State }: ContainerInspectInfo): boolean {
  return State.Running || State.Paused
}

/** All of ours of a kind, running or not. */
export function listOurs(docker: Docker, owner: string, use: Use): Promise<ContainerInfo[]> {
  return docker.listContainers({ all: true, filters: filterFor(owner, use) })
}

/** What the daemon knows of it; undefined when it does not know it. */
export function inspect(container: Container): Promise<ContainerInspectInfo | undefined> {
  return container.inspect().catch((cause) => {
    if (statusOf(cause) === 404) return undefined
    throw cause
  })
}
