import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type Docker from 'dockerode'
import type { Container, ContainerInfo, ContainerInspectInfo } from 'dockerode'
import { isBusy, statusOf } from './errors.ts'
import { filterFor, type Use } from './labels.ts'

/** Kills a container with SIGKILL. Resolves to its state when none of its processes runs. */
export async function killContainer(container: Container): Promise<ContainerInspectInfo | undefined> {
  let info = await inspect(container)
  const life = info?.State.StartedAt
  // A frozen process cannot die, and Podman would wait for it forever.
  if (info?.State.Paused) await container.unpause().catch(() => {})
  if (!info || !lives(info)) return info
  await container.kill({ signal: 'SIGKILL' }).catch(async (cause) => {
    // The container may have ended or be gone. Daemons report that in different ways.
    const now = await inspect(container)
    if (now && lives(now)) throw cause
  })
  // Some daemons answer when the signal is sent.
  for (let waited = 0; waited < 500; waited += 1) {
    info = await inspect(container)
    // Another process may have started it again.
    if (!info || !lives(info) || info.State.StartedAt !== life) return info
    await sleep(20)
  }
  throw new SandboxError('timeout', `container ${container.id} still runs after SIGKILL`)
}

/**
 * Removes a container, running or not, with the volumes of its image. Resolves when it is gone, also if another
 * process removes it.
 */
export async function removeContainer(container: Container): Promise<void> {
  let refusal: unknown
  for (let waited = 0; waited < 500; waited += 1) {
    try {
      await container.remove({ force: true, v: true })
    } catch (cause) {
      // Another process is removing it, such as Podman's own cleanup after its end: continue until it is gone.
      if (statusOf(cause) !== 404 && statusOf(cause) !== 409 && !isBusy(cause)) throw cause
      refusal = cause
    }
    if ((await inspect(container)) === undefined) return
    await sleep(20)
  }
  throw new SandboxError('timeout', `container ${container.id} still exists after its removal`, {
    cause: refusal,
  })
}

/** Some daemons do not count a frozen container as running, but it has not ended. */
export function lives({ State }: ContainerInspectInfo): boolean {
  return State.Running || State.Paused
}

/** All our containers of a kind, running or not. */
export function listOurs(docker: Docker, owner: string, use: Use): Promise<ContainerInfo[]> {
  return docker.listContainers({ all: true, filters: filterFor(owner, use) })
}

/** The container's state, or undefined if the daemon does not have it. */
export function inspect(container: Container): Promise<ContainerInspectInfo | undefined> {
  return container.inspect().catch((cause) => {
    if (statusOf(cause) === 404) return undefined
    throw cause
  })
}
