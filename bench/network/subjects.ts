/** The bare host, Docker's bridge, and sandboxes with each network, all on the host of one world. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Network } from '@sandkasten/sdk'
import { startDockerd } from '../../packages/engine/src/isolators/docker/testing/daemons.ts'
import { RESOLVER } from '../../test/egress/world/addresses.ts'
import type { Engine } from '../../test/egress/world/engine.ts'
import type { World } from '../../test/egress/world/world.ts'
import type { Cleanup } from '../cleanup.ts'
import { makeRootfs } from '../engine/rootfs.ts'
import { importImage } from '../engine/subjects/docker.ts'
import { DockerApi } from '../engine/subjects/docker-api.ts'
import { folderIn, type Workplace } from '../engine/workplace.ts'
import { HOST } from './client.ts'

export interface NetworkSubject {
  readonly name: string
  /** Runs python3 and returns its output. */
  run(args: readonly string[]): Promise<string>
}

export const POLICY = { allow: [HOST] }
export const BROKERED = {
  ...POLICY,
  transform: [{ match: { host: HOST }, headers: { authorization: { secret: 'bench' } } }],
}

export function hostSubject(world: World): NetworkSubject {
  const [program = '', ...enter] = world.enter
  return {
    name: 'host',
    async run(args) {
      return (await promisify(execFile)(program, [...enter, '/usr/bin/python3', ...args])).stdout
    },
  }
}

export async function engineSubject(engine: Engine, name: string, network: Network): Promise<NetworkSubject> {
  const id = await engine.create({ network })
  return {
    name,
    async run(args) {
      const { stdout, stderr, exitCode } = await engine.run(id, { cmd: 'python3', args })
      if (exitCode !== 0) throw new Error(`${name}: ${stderr}`)
      return stdout
    },
  }
}

export async function dockerSubject(
  world: World,
  place: Workplace,
  cleanup: Cleanup,
): Promise<NetworkSubject> {
  const folder = folderIn(place, 'docker')
  const daemon = await startDockerd(folder, { group: place.name, enter: world.enter, bridge: true })
  const api = new DockerApi(daemon.socketPath)
  cleanup.add('the private dockerd', async () => {
    api.close()
    await daemon.stop()
  })
  const image = 'bench:min'
  await importImage(api, makeRootfs(join(place.folder, 'rootfs')))
  const { Id } = await api.json<{ Id: string }>('POST', '/containers/create', {
    Image: image,
    Cmd: ['sleep', 'infinity'],
    HostConfig: { NetworkMode: 'bridge', Dns: [RESOLVER], Binds: ['/usr:/usr:ro'] },
  })
  await api.call('POST', `/containers/${Id}/start`)
  cleanup.add('Docker’s container', async () => void (await api.call('DELETE', `/containers/${Id}?force=1`)))
  return {
    name: 'docker',
    async run(args) {
      const made = await api.json<{ Id: string }>('POST', `/containers/${Id}/exec`, {
        Cmd: ['/usr/bin/python3', ...args],
        AttachStdout: true,
        AttachStderr: true,
        Tty: true,
      })
      const output = await api.call('POST', `/exec/${made.Id}/start`, { Detach: false, Tty: true })
      const { ExitCode } = await api.json<{ ExitCode: number }>('GET', `/exec/${made.Id}/json`)
      if (ExitCode !== 0) throw new Error(`docker: exit code ${ExitCode}; ${output}`)
      return output
    },
  }
}
