/** Sandboxes of `docker` on a private daemon, for tests. */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Docker from 'dockerode'
import { buildRunner } from '../../../runner/build-runner.ts'
import type { IsolatorSpec } from '../../isolator.ts'
import { type Cage, type Captive, type SpecChanges, specFor, talkTo } from '../../testing/cage.ts'
import { ownerOf } from '../daemon/labels.ts'
import { DockerIsolator, type DockerIsolatorOptions } from '../isolator.ts'
import { type PrivateDaemon, removeDaemonFolder, startDockerd, startPodman } from './daemons.ts'

export interface DockerCage extends Cage {
  readonly daemon: PrivateDaemon
  readonly docker: Docker
  readonly isolator: DockerIsolator
  readonly owner: string
  readonly options: DockerIsolatorOptions
  /** Creates another isolator on the same daemon, as another process would. */
  another(options?: Partial<DockerIsolatorOptions>): DockerIsolator
  spec(changes?: SpecChanges): IsolatorSpec
}

/** All containers share the host's users, and the Engine API cannot limit these resources per container. */
const SHARED = {
  neighbours: ['inotify', 'terminals', 'queues', 'timers', 'signals', 'pipes'],
  host: ['inotify'],
} as const

export async function openDockerCage(kind: 'docker' | 'podman', { remap = false } = {}): Promise<DockerCage> {
  const folder = mkdtempSync(join(tmpdir(), `skt-${kind}-`))
  const daemon = await (kind === 'docker' ? startDockerd : startPodman)(folder, { remap })
  const docker = new Docker({ socketPath: daemon.socketPath })
  const options: DockerIsolatorOptions = {
    socketPath: daemon.socketPath,
    runner: process.env.SANDKASTEN_RUNNER ?? (await buildRunner()),
    stateFolder: join(folder, 'state'),
    runFolder: join(folder, 'run'),
    cgroupParent: `/${daemon.group}`,
    userns: remap && kind === 'podman' ? 'auto:size=65536' : undefined,
  }
  const isolator = new DockerIsolator(options)
  let counter = 0
  const owner = ownerOf(options.stateFolder)
  const spec = (changes?: SpecChanges) => {
    counter += 1
    const sandboxId = changes?.sandboxId ?? `box-${counter}`
    return specFor(sandboxId, join(folder, 'boxes', sandboxId), changes)
  }
  return {
    traits: {
      ids: remap ? (kind === 'docker' ? 'common' : 'own') : 'machine',
      entries: kind === 'docker' ? ['.dockerenv'] : [],
      devices: kind === 'docker' ? ['mqueue'] : ['core', 'mqueue'],
      exactErrno: false,
      socket: 'named',
      daemonMounts: true,
      countsOom: kind === 'docker',
      shared: SHARED,
      writableProc: kind === 'podman',
    },
    folder,
    dev: join(daemon.root, 'dev'),
    daemon,
    docker,
    isolator,
    owner,
    options,
    another: (changes) => new DockerIsolator({ ...options, ...changes }),
    spec,
    async start(changes?: SpecChanges): Promise<Captive> {
      const wanted = spec(changes)
      const sandbox = await isolator.start(wanted)
      const { State } = await docker.getContainer(`sandkasten-${owner}-${wanted.sandboxId}`).inspect()
      const parent = readFileSync(`/proc/${State.Pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1]
      return {
        spec: wanted,
        sandbox,
        ...(await talkTo(sandbox)),
        runnerPid: State.Pid,
        outsiders: [Number(parent)],
        firstId: Number(readFileSync(`/proc/${State.Pid}/uid_map`, 'utf8').trim().split(/\s+/)[1]),
        socket: join(options.runFolder!, wanted.sandboxId, 'io/runner.sock'),
        notes: [join(wanted.folder, 'killed.json'), join(options.stateFolder, 'docker-owner')],
      }
    },
    async remove({ spec, client }) {
      client.close()
      await isolator.remove(spec)
      const left = await docker.listContainers({ all: true })
      return [
        ...left
          .filter(({ Names }) => Names.some((name) => name.endsWith(spec.sandboxId)))
          .map(({ Id }) => Id),
        ...readdirSync(options.runFolder!).filter((name) => name === spec.sandboxId),
      ]
    },
    async [Symbol.asyncDispose]() {
      await daemon.stop()
      removeDaemonFolder(folder)
    },
  }
}
