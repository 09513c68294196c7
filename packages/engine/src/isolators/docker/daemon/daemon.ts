import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type Docker from 'dockerode'
import { translate } from './errors.ts'

export interface DaemonAddress {
  /** The daemon's Unix socket or named pipe. Default: DOCKER_HOST, then the default sockets of Docker and Podman. */
  readonly socketPath?: string
  /** As DOCKER_HOST: `unix://…`, `tcp://…`, `ssh://…`. */
  readonly host?: string
}

/** Properties of a daemon, requested once. */
export interface DaemonFacts {
  readonly kind: 'docker' | 'podman'
  readonly version: string
  /**
   * The user id of a container's root on the daemon's machine, if the daemon remaps it to the same id for all
   * containers.
   */
  readonly remapped: boolean
  readonly rootId?: number
  readonly memoryLimit: boolean
  readonly cpuLimit: boolean
  readonly pidsLimit: boolean
  readonly seccomp: boolean
  readonly architecture: 'x86_64' | 'aarch64' | undefined
}

/** A connection to a daemon. dockerode is loaded on first use: it is large, and most engines never use Docker. */
export class Daemon {
  /** A description for errors. */
  readonly where: string
  private readonly address: DaemonAddress
  private client?: Promise<Docker>
  private known?: Promise<DaemonFacts>

  constructor(address: DaemonAddress = {}) {
    const socketPath =
      address.socketPath ?? ((address.host ?? process.env.DOCKER_HOST) ? undefined : findSocket())
    this.address = { ...address, socketPath }
    this.where = socketPath ?? address.host ?? process.env.DOCKER_HOST ?? 'its socket'
  }

  /** Whether an address or a socket exists. Sends no request. */
  get seemsThere(): boolean {
    const { socketPath } = this.address
    return socketPath === undefined || existsSync(socketPath)
  }

  docker(): Promise<Docker> {
    this.client ??= import('dockerode').then(({ default: Client }) => new Client(clientOptions(this.address)))
    return this.client
  }

  facts(): Promise<DaemonFacts> {
    this.known ??= this.ask().catch((cause) => {
      // Do not cache the failure: the daemon may be up at the next call.
      this.known = undefined
      throw cause
    })
    return this.known
  }

  /** Runs `work` on the connection. Translates every error to a SandboxError. */
  async call<T>(
    doing: string,
    work: (docker: Docker) => Promise<T>,
    context: { sandboxId?: string; image?: string } = {},
  ): Promise<T> {
    try {
      return await work(await this.docker())
    } catch (cause) {
      throw translate(cause, doing, { where: this.where, ...context })
    }
  }

  private async ask(): Promise<DaemonFacts> {
    const [version, info] = await this.call('Reading the daemon’s capabilities', (docker) =>
      Promise.all([docker.version(), docker.info()]),
    )
    const components = (version as { Components?: { Name: string }[] }).Components ?? []
    const options: string[] = info.SecurityOptions ?? []
    const has = (name: string) => options.some((option) => option.split(',')[0] === `name=${name}`)
    // dockerd's folder is named after the remapped ids: `165536.165536`.
    const rootId = /\/(\d+)\.\d+$/.exec(String(info.DockerRootDir ?? ''))?.[1]
    return {
      kind: components.some(({ Name }) => Name === 'Podman Engine') ? 'podman' : 'docker',
      version: String(version.Version),
      remapped: has('userns') || has('rootless'),
      rootId: has('userns') && rootId !== undefined ? Number(rootId) : undefined,
      memoryLimit: info.MemoryLimit === true,
      cpuLimit: info.CpuCfsQuota === true || info.CPUCfsQuota === true,
      pidsLimit: info.PidsLimit === true,
      seccomp: has('seccomp'),
      architecture: architectures[String(version.Arch ?? info.Architecture)],
    }
  }
}

const architectures: Readonly<Record<string, 'x86_64' | 'aarch64'>> = {
  amd64: 'x86_64',
  x86_64: 'x86_64',
  arm64: 'aarch64',
  aarch64: 'aarch64',
}

function findSocket(): string {
  const places = usualSockets()
  return places.find((place) => existsSync(place)) ?? places[0]!
}

/** Addresses of possible daemons: DOCKER_HOST, or else every default socket that exists. */
export function daemonsHere(): string[] {
  if (process.env.DOCKER_HOST) return [process.env.DOCKER_HOST]
  const scheme = process.platform === 'win32' ? 'npipe' : 'unix'
  return usualSockets()
    .filter((place) => existsSync(place))
    .map((place) => `${scheme}://${place}`)
}

/** Where Docker and Podman listen by default. */
function usualSockets(): string[] {
  if (process.platform === 'win32') return ['//./pipe/docker_engine']
  const runtime = process.env.XDG_RUNTIME_DIR
  return [
    '/var/run/docker.sock',
    join(homedir(), '.docker/run/docker.sock'),
    ...(runtime ? [join(runtime, 'docker.sock'), join(runtime, 'podman/podman.sock')] : []),
    '/run/podman/podman.sock',
  ]
}

/** dockerode also reads DOCKER_HOST; an explicit address must win. */
function clientOptions({ socketPath, host }: DaemonAddress): Docker.DockerOptions | undefined {
  if (socketPath !== undefined) return { ...nothing, socketPath }
  if (host === undefined) return undefined
  const local = /^(?:unix|npipe):\/\/(.+)$/.exec(host)
  if (local) return { ...nothing, socketPath: local[1]! }
  const { protocol, hostname, port, username } = new URL(host)
  const secure = port === '2376' || process.env.DOCKER_TLS_VERIFY === '1'
  const kind = protocol === 'ssh:' ? 'ssh' : secure || protocol === 'https:' ? 'https' : 'http'
  return { ...nothing, host: hostname, port, protocol: kind, username: username || undefined }
}

const nothing = {
  host: undefined,
  port: undefined,
  protocol: 'http',
  socketPath: undefined,
} as unknown as object
