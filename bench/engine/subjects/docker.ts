/** The Docker Engine API: create, start and exec of a container, hardened with Docker's own options. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { timed } from '../../measure.ts'
import { assertGoingOn } from '../../stop.ts'
import type { Commits, Files } from '../stages/stage.ts'
import { groupRoots, type Workplace } from '../workplace.ts'
import type { DockerApi } from './docker-api.ts'
import { dockerFiles } from './docker-files.ts'
import { startDockerd } from './dockerd.ts'
import { assertHardened, type Box, COMMAND, LIMITS, type Subject, USER } from './subject.ts'

export type DockerSubject = Subject & {
  readonly socketPath: string
  openFiles(): Promise<Files>
  openCommit(bytes: number): Promise<Commits>
}

export const IMAGE = 'bench:min'

export async function openDocker(place: Workplace, rootfs: string): Promise<DockerSubject> {
  const { api, socketPath } = await startDockerd(place)
  await importImage(api, rootfs)
  const live = new Set<string>()
  place.cleanup.add('Docker’s containers', async () => {
    for (const id of live) await api.call('DELETE', `/containers/${id}?force=1`)
  })

  async function cold(): Promise<{ ms: number; box: Box & { id: string } }> {
    assertGoingOn()
    let id = ''
    const ms = await timed(async () => {
      id = (await api.json<{ Id: string }>('POST', '/containers/create', container)).Id
      live.add(id)
      await api.call('POST', `/containers/${id}/start`)
      await exec(api, id, COMMAND)
    })
    return { ms, box: box(id) }
  }

  function box(id: string): Box & { id: string } {
    return {
      id,
      command: () => timed(() => exec(api, id, COMMAND)),
      async destroy() {
        const ms = await timed(() => api.call('DELETE', `/containers/${id}?force=1`))
        live.delete(id)
        const left = groupRoots().filter((root) => existsSync(join(root, place.name, id)))
        if (left.length > 0) throw new Error(`Docker left control groups: ${left.join(', ')}`)
        return ms
      },
    }
  }

  const first = await cold()
  assertHardened('docker', await exec(api, first.box.id, ['cat', '/proc/self/status']))
  await first.box.destroy()
  return {
    name: 'docker',
    socketPath,
    cold,
    async openFiles() {
      const { id, destroy } = (await cold()).box
      return dockerFiles(api, id, destroy)
    },
    async openCommit(bytes) {
      const { id, destroy } = (await cold()).box
      const content = (async function* () {
        yield new Uint8Array(bytes).fill(7)
      })()
      await dockerFiles(api, id, destroy).write('/workspace/changed', content, bytes)
      return {
        async commit() {
          let image = ''
          const ms = await timed(async () => {
            image = (await api.json<{ Id: string }>('POST', `/commit?container=${id}&pause=1`, {})).Id
          })
          await api.call('DELETE', `/images/${image}`)
          return ms
        },
        close: destroy,
      }
    },
  }
}

const container = {
  Image: IMAGE,
  Cmd: ['sleep', 'infinity'],
  User: `${USER}:${USER}`,
  Env: ['PATH=/usr/bin:/bin'],
  HostConfig: {
    NetworkMode: 'none',
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    Memory: LIMITS.memoryBytes,
    MemorySwap: LIMITS.memoryBytes,
    PidsLimit: LIMITS.pids,
    NanoCpus: LIMITS.cpus * 1e9,
  },
}

/** Needs three calls, because the exit code is part of the result, as in our `runCommand`. */
async function exec(api: DockerApi, id: string, argv: readonly string[]): Promise<string> {
  const made = await api.json<{ Id: string }>('POST', `/containers/${id}/exec`, {
    Cmd: argv,
    AttachStdout: true,
    AttachStderr: true,
    User: container.User,
  })
  const output = await api.call('POST', `/exec/${made.Id}/start`, { Detach: false, Tty: false })
  const { ExitCode } = await api.json<{ ExitCode: number }>('GET', `/exec/${made.Id}/json`)
  if (ExitCode !== 0) throw new Error(`docker exec ${argv.join(' ')}: exit code ${ExitCode}; ${output}`)
  return output
}

export async function importImage(api: DockerApi, rootfs: string): Promise<void> {
  const tar = spawn('tar', ['-C', rootfs, '--owner=0', '--group=0', '-c', '.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [repo, tag] = IMAGE.split(':')
  const answer = await api.call(
    'POST',
    `/images/create?fromSrc=-&repo=${repo}&tag=${tag}`,
    tar.stdout,
    'application/x-tar',
  )
  // Docker responds with 200 before the import.
  if (answer.includes('"error"')) throw new Error(`docker import: ${answer}`)
}
