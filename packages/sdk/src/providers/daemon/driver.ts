import type { SandboxClient, SessionInfo } from '../../client/index.ts'
import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { undoneOnAbort } from '../../shared/calls/undo.ts'
import { randomId } from '../../shared/ids.ts'
import { matches } from '../../shared/page.ts'
import { portsText } from '../../shared/port-list.ts'
import type {
  CallOptions,
  CreateOption,
  ListSandboxesOpts,
  SandboxPage,
  SnapshotInfo,
} from '../../spec/index.ts'
import { type DaemonCapabilities, daemonCapabilities } from './capabilities.ts'
import { DaemonSandbox } from './sandbox.ts'
import {
  infoOf,
  isLive,
  liveStatuses,
  notFound,
  peopleLabel,
  portsLabel,
  sessionStatuses,
  setupLabel,
} from './translation.ts'
import { withVolumes } from './volumes.ts'

/** How long a creator may take to set up a new sandbox before others stop waiting for it. */
const setupMs = 15 * 60_000

export class DaemonDriver implements ProviderDriver<DaemonCapabilities> {
  readonly name = 'daemon'
  readonly isolation = 'container'
  readonly capabilities = daemonCapabilities
  readonly createOptions: readonly CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'lifetimeMs',
    'snapshotId',
    'image',
    'runtime',
    'ports',
    'resources',
    'user',
    'network',
    'repo',
    'gitToken',
    'providerOptions',
  ]
  /** The daemon freezes the sandbox, as the engine does. */
  readonly snapshotInterrupts = false
  readonly #client: SandboxClient

  constructor(client: SandboxClient) {
    this.#client = client
  }

  async create(spec: CreateSpec, { signal }: CallOptions): Promise<DaemonSandbox> {
    const creating = this.#client.create(createOptions(spec))
    const { info } = await undoneOnAbort(
      creating,
      ({ session }) => session.end(),
      signal,
      'Creating the sandbox',
    )
    return this.#sandbox(info)
  }

  async open(
    sandboxId: string,
    { resume }: { resume: boolean },
    { signal }: CallOptions,
  ): Promise<DaemonSandbox> {
    const info = await this.#settled(sandboxId, signal)
    if (!isLive(info)) throw notFound(sandboxId)
    if (!resume || info.status === 'running') return this.#sandbox(info)
    return this.#sandbox(await this.#client.session(sandboxId).startAgain({ signal }))
  }

  async find(name: string, { signal }: CallOptions): Promise<string | undefined> {
    const [found] = await this.#client.listSessions({ name, status: liveStatuses, limit: 1, signal })
    return found?.id
  }

  async list(filter: ListSandboxesOpts, { signal }: CallOptions): Promise<SandboxPage> {
    const status = sessionStatuses(filter.status)
    if (status.length === 0) return []
    const { name, limit, cursor } = filter
    // The query cannot express a key with `=`, so it is filtered here.
    const labels = Object.entries(filter.labels ?? {}).filter(([key]) => !key.includes('='))
    const sessions = await this.#client.listSessions({
      status,
      labels: Object.fromEntries(labels),
      name,
      limit,
      cursor,
      signal,
    })
    const page: SandboxPage = sessions.map(infoOf).filter((info) => matches(info, filter))
    if (sessions.nextCursor !== undefined) page.nextCursor = sessions.nextCursor
    return page
  }

  async destroy(sandboxId: string, { signal }: CallOptions): Promise<boolean> {
    try {
      return await this.#client.session(sandboxId).end({ signal })
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  async listSnapshots({ signal }: CallOptions): Promise<SnapshotInfo[]> {
    return (await this.#client.listSnapshots({ signal })).map(
      ({ id, sessionId, name, createdAt, sizeBytes }) => ({
        snapshotId: id,
        sandboxId: sessionId,
        createdAt,
        name,
        sizeBytes,
      }),
    )
  }

  deleteSnapshot(snapshotId: string, { signal }: CallOptions): Promise<boolean> {
    return this.#client.deleteSnapshot(snapshotId, { signal })
  }

  health(call: CallOptions): Promise<boolean> {
    return this.#client.isReady(call)
  }

  #sandbox(info: SessionInfo): DaemonSandbox {
    return new DaemonSandbox(this.#client, info)
  }

  /** The session, after its creator has finished. */
  async #settled(sandboxId: string, signal: AbortSignal | undefined): Promise<SessionInfo> {
    const session = this.#client.session(sandboxId)
    for (;;) {
      const info = await session.info({ signal })
      const since = info.labels[setupLabel]
      if (info.status !== 'creating' && (since === undefined || !isLive(info))) return info
      if (since !== undefined && Date.now() - Date.parse(since) > setupMs)
        throw new SandboxError('conflict', `The sandbox ${sandboxId} was never set up completely.`, {
          provider: this.name,
          sandboxId,
          hint: 'Its creator ended before the setup was complete. Destroy the sandbox and create it again.',
        })
      await new Promise((resolve) => setTimeout(resolve, 50))
      throwIfAborted(signal)
    }
  }
}

function createOptions(spec: CreateSpec) {
  const {
    name,
    label,
    labels,
    envVars,
    ports,
    lifetimeMs,
    image,
    runtime,
    snapshotId,
    resources,
    user,
    network,
    providerOptions,
  } = spec
  const lifetimeSeconds = lifetimeMs === undefined ? undefined : lifetimeMs / 1000
  return {
    name,
    image,
    runtime,
    snapshotId,
    labels: {
      ...labels,
      ...(label === undefined ? {} : { [peopleLabel]: label }),
      ...(ports === undefined ? {} : { [portsLabel]: portsText(ports) }),
      ...(spec.deferReady ? { [setupLabel]: new Date().toISOString() } : {}),
    },
    env: envVars,
    limits: resources && { cpu: resources.vcpus, memoryMb: resources.memoryMb, diskMb: resources.diskMb },
    user,
    network,
    // At the end of its lease, the sandbox stops and keeps its disk. With a lifetime, only the lifetime ends it.
    onIdle: 'stop' as const,
    onLifetime: 'stop' as const,
    lifetimeSeconds,
    ttlSeconds: lifetimeSeconds,
    idempotencyKey: randomId(26),
    ...withVolumes(providerOptions),
  }
}
