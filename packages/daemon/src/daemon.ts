import path from 'node:path'
import {
  decideIsolator,
  EngineProvider,
  type EngineProviderOptions,
  type IoLimit,
  rootBelow,
} from '@sandkasten/engine'
import { SandboxError } from '@sandkasten/sdk'
import { allRoutes, buildServer, handleUpgrades, terminalSocket } from './api/index.ts'
import type { DaemonConfig } from './config/index.ts'
import { type Instance, takeDataFolder } from './data-folder.ts'
import { catchDefects } from './defects.ts'
import { allFronts, type Fronts, startFronts } from './fronts/index.ts'
import { Audit } from './http/audit.ts'
import { Streams } from './http/event-streams.ts'
import type { Patience, Services } from './http/services.ts'
import { KeyRing, TokenCallers, TokenVerifier } from './keys/index.ts'
import { type Log, openLog } from './log.ts'
import { Metrics } from './metrics.ts'
import { startPreviews } from './preview/index.ts'
import { keySource, ProjectSecrets } from './secrets/index.ts'
import {
  type Context,
  type DaemonProvider,
  EndTimer,
  EventBus,
  LiveSessions,
  Pool,
  ResultMemory,
  SessionService,
  sessionLabel,
} from './sessions/index.ts'
import { Store } from './store/index.ts'
import { version } from './version.ts'

export interface DaemonOptions {
  config: DaemonConfig
  /** Any provider of the SDK. Default: the engine on this machine. */
  provider?: DaemonProvider
  log?: Log
  /** Shorter timeouts, for tests with slow clients. */
  patience?: Patience
  /** Variables that may have the key of the secrets. Default: those of this process. */
  env?: Readonly<Record<string, string | undefined>>
  /** The process belongs to the daemon alone. Unhandled errors are logged and counted, and do not end it. */
  ownsProcess?: boolean
}

export interface Daemon {
  readonly url: string
  /** The URL of the preview listener. Undefined when previews are off. */
  readonly previewUrl?: string
  /** The URL of each configured front. */
  readonly fronts: Fronts['urls']
  readonly instanceId: string
  /** Set only at the first start without a configured key. It is not stored, so show it once. */
  readonly firstKey?: string
  readonly sessions: SessionService
  /** The provider's isolation. */
  readonly isolation: string
  close(): Promise<void>
}

export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  return (await openDaemon(options)).daemon
}

/** `startDaemon` for tests, which also need the context behind `SessionService`. */
export async function openDaemon(options: DaemonOptions): Promise<{ daemon: Daemon; context: Context }> {
  const log = options.log ?? openLog(options.config)
  const undo: Array<() => Promise<unknown> | unknown> = []
  const close = async () => {
    while (undo.length > 0) await undo.pop()!()
  }
  try {
    const instance = await takeDataFolder(options.config.data_dir, log)
    undo.push(() => instance.release())
    // Set before any sandbox is used.
    let networks: SessionService['networks'] | undefined
    const secretOf: SecretFunction = async (name, { sandboxId, labels }) =>
      networks?.secretOf(name, { sandboxId, sessionId: labels[sessionLabel] })
    const engine = options.provider ? undefined : engineOf(options.config, log, secretOf)
    const provider = options.provider ?? engine!
    undo.push(() => provider.close?.())
    const config = withSizeLimits(options.config, engine?.limitsDisks ?? false)
    const store = await openStore(config, log)
    undo.push(() => store.close())
    const patience = options.patience ?? { headMs: 15_000, bodyMs: 60_000 }
    return await assemble(
      {
        config,
        provider,
        store,
        instance,
        log,
        patience,
        ownsProcess: options.ownsProcess ?? false,
        env: options.env ?? process.env,
        onSessions(sessions) {
          networks = sessions.networks
        },
      },
      undo,
      close,
    )
  } catch (error) {
    await close()
    throw error
  }
}

async function assemble(
  given: Pick<Context, 'config' | 'provider' | 'store' | 'log'> & {
    instance: Instance
    patience: Patience
    ownsProcess: boolean
    env: Readonly<Record<string, string | undefined>>
    onSessions: (sessions: SessionService) => void
  },
  undo: Array<() => Promise<unknown> | unknown>,
  close: () => Promise<void>,
): Promise<{ daemon: Daemon; context: Context }> {
  const { config, provider, store, instance, log, patience } = given
  const metrics = new Metrics()
  const events = new EventBus(store, log)
  undo.push(() => events.close())
  const source = keySource({ file: path.join(config.data_dir, 'secrets.key'), env: given.env })
  const secrets = new ProjectSecrets({ store, source, log })
  await secrets.start()
  const parts = {
    config,
    store,
    secrets,
    provider,
    instanceId: instance.id,
    live: new LiveSessions(),
    events,
    ends: new EndTimer(),
    metrics,
    log,
    memory: new ResultMemory(config.result_memory_mb * 1_048_576),
  }
  metrics.onRead(() => metrics.set('sandkasten_result_memory_bytes', {}, parts.memory.usedBytes))
  const context: Context = { ...parts, pool: new Pool(parts) }
  const sessions = new SessionService(context)
  given.onSessions(sessions)
  const verifier = config.jwt && (await TokenVerifier.open(config.jwt, log))
  undo.push(() => verifier?.close())
  metrics.onRead(() => {
    if (verifier?.keyAgeSeconds !== undefined)
      metrics.set('sandkasten_token_keys_age_seconds', {}, Math.round(verifier.keyAgeSeconds))
  })
  const keys = new KeyRing(store, config.jwt && verifier && new TokenCallers(store, verifier, config.jwt))
  const { firstKey } = await keys.prepare(config.api_key)
  await instance.writeCommandLineKey(await keys.commandLineKey(await instance.readCommandLineKey()))
  undo.push(() => sessions.leases.write())
  sessions.reconciler.watch()
  await sessions.reconciler.tidy()
  await sessions.reconciler.run()
  await sessions.reconciler.recover()
  await sessions.networks.recover()
  undo.push(() => sessions.networks.watch.close())
  undo.push(() => sessions.commands.close())
  undo.push(() => context.pool.close())
  undo.push(housekeeping(sessions, context))
  void context.pool.tend()
  const audit = new Audit((rows) => store.records.addAudit(rows), log)
  undo.push(() => audit.flush())
  const streams = new Streams(metrics, keys)
  watchGauges(metrics, store, instance.id)
  let closing = false
  const previews = await startPreviews(context, sessions, keys, patience)
  undo.push(() => previews.close())
  const services: Services = {
    config,
    sessions,
    secrets,
    ports: previews.ports,
    visits: previews.visits,
    connections: previews.connections,
    keys,
    events,
    audit,
    streams,
    metrics,
    log,
    version,
    patience,
    async ready() {
      if (closing) throw new SandboxError('unavailable', 'The daemon is stopping.')
      await store.ping()
    },
  }
  const app = buildServer(services, allRoutes(services))
  app.addHook('onRequest', async () => {
    if (closing)
      throw new SandboxError('unavailable', 'The daemon is stopping.', { hint: 'Try again in a moment.' })
  })
  handleUpgrades(app.server, services, [terminalSocket(services)])
  let fronts: Fronts | undefined
  // Close the fronts after all streams have told their clients that the daemon stops.
  undo.push(() => fronts?.close())
  undo.push(async () => {
    closing = true
    await streams.close()
    await app.close()
  })
  const url = await listen(app, config)
  previews.own(url)
  fronts = await startFronts(allFronts, services, store.fronts)
  for (const own of fronts.listening) previews.own(own)
  await instance.writeAddress(url)
  // Installed last, so that errors during the start end the process.
  if (given.ownsProcess) undo.push(catchDefects(log, metrics))
  log.info({ url, instance: instance.id, store: store.kind, isolation: provider.isolation }, 'listening')
  const daemon = {
    url,
    previewUrl: previews.url,
    fronts: fronts.urls,
    instanceId: instance.id,
    firstKey,
    sessions,
    isolation: provider.isolation,
    close: once(close),
  }
  return { daemon, context }
}

export function engineOptions(config: DaemonConfig): EngineProviderOptions {
  const { defaults, docker, runtime, run_dir: runFolder } = config
  const options: EngineProviderOptions = {
    // A runtime implies the isolator `oci`, unless the isolator `docker` is named.
    isolator: config.isolator === 'auto' && runtime !== undefined ? 'oci' : config.isolator,
    acceptNoIsolation: config.accept_no_isolation,
    root: config.engine_dir,
    pull: config.pull_images,
    openNetwork: config.open_network,
    hostImage: config.host_image,
    oci: {
      runFolder,
      ioLimit: ioLimitOf(config),
      runtime: config.isolator === 'docker' ? undefined : runtime,
    },
    docker: {
      runFolder,
      ...docker,
      runtime: config.isolator === 'docker' ? runtime : undefined,
    },
    defaults: {
      memoryMb: defaults.memory_mb,
      vcpus: defaults.cpu_limit,
      pids: defaults.pids_limit,
      tmp: defaults.tmp,
      tmpMb: defaults.tmp_limit_mb,
      network: defaults.network_mode,
      login: defaults.login_shell,
    },
  }
  const { isolator } = decideIsolator(options)
  return { ...options, isolator, root: rootBelow(config.engine_dir, { ...options, isolator }) }
}

function ioLimitOf({ io_limit: { read_mb_s: read, write_mb_s: write } }: DaemonConfig): IoLimit {
  return {
    readBytesPerSecond: read && read * 1024 * 1024,
    writeBytesPerSecond: write && write * 1024 * 1024,
  }
}

type SecretFunction = Extract<EngineProviderOptions['secrets'], (...args: never[]) => unknown>

function engineOf(config: DaemonConfig, log: Log, secrets: SecretFunction): EngineProvider {
  const onWarning = (message: string) => log.warn({}, message)
  return new EngineProvider({ ...engineOptions(config), secrets, onWarning })
}

/** The default limits of a session's disk and of a volume. */
const DISK_LIMIT_MB = 10_240
const VOLUME_LIMIT_MB = 1_024

/** Sets the defaults only if the provider can limit disks. Otherwise every create would be refused. */
function withSizeLimits(config: DaemonConfig, canLimit: boolean): DaemonConfig {
  const { defaults, max } = config
  if (!canLimit) return config
  const {
    disk_limit_mb = Math.min(DISK_LIMIT_MB, max.disk_limit_mb),
    volume_limit_mb = Math.min(VOLUME_LIMIT_MB, max.volume_limit_mb),
  } = defaults
  return { ...config, defaults: { ...defaults, disk_limit_mb, volume_limit_mb } }
}

/** Opens the database. Retries for a while, because at boot it may start after the daemon. */
async function openStore(config: DaemonConfig, log: Log): Promise<Store> {
  const startedAt = Date.now()
  for (;;) {
    try {
      return await Store.open(config)
    } catch (error) {
      if (!SandboxError.is(error, 'unavailable') || Date.now() - startedAt > 15_000) throw error
      log.warn({ err: error }, 'waiting for the database')
    }
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

/**
 * Starts the periodic jobs: leases every second, the reaper at its interval and when a session is due, reconciliation
 * every half minute. Returns a function that stops them.
 */
function housekeeping(
  sessions: SessionService,
  { config, log, store, pool, ends }: Context,
): () => Promise<void> {
  const jobs = [
    { name: 'leases', everyMs: 1_000, run: () => sessions.leases.write() },
    {
      name: 'reaper',
      everyMs: config.reaper_interval_seconds * 1000,
      run: async () => {
        await sessions.leases.mindTheClock()
        await sessions.reaper.run()
      },
    },
    { name: 'reserve', everyMs: 1_000, run: async () => store.putBy() },
    { name: 'pool', everyMs: 1_000, run: () => pool.tend() },
    { name: 'egress', everyMs: 1_000, run: () => sessions.networks.tend() },
    { name: 'reconciler', everyMs: 30_000, run: () => sessions.reconciler.run() },
  ]
  const timers = jobs.map(({ name, everyMs, run }) => {
    let running: Promise<unknown> | undefined
    const timer = setInterval(() => {
      // A job that is still running is not started again.
      running ??= run()
        .catch((error: unknown) => log.warn({ err: error, job: name }, 'a periodic job failed'))
        .finally(() => {
          running = undefined
        })
    }, everyMs)
    timer.unref()
    return { timer, running: () => running }
  })
  let ending: Promise<unknown> = Promise.resolve()
  const endDue = async () => {
    await sessions.leases.mindTheClock()
    await sessions.reaper.endDue()
  }
  const stopEnds = ends.start(() => {
    ending = endDue().catch((error: unknown) =>
      log.warn({ err: error, job: 'ends' }, 'a periodic job failed'),
    )
  })
  // End sessions that became due while no daemon ran.
  ends.at(Date.now())
  return async () => {
    stopEnds()
    for (const { timer } of timers) clearInterval(timer)
    await Promise.all([ending, ...timers.map(({ running }) => running())])
    await sessions.reaper.settled()
  }
}

function watchGauges(metrics: Metrics, store: Store, instanceId: string): void {
  metrics.onRead(async () => {
    metrics.set('process_resident_memory_bytes', {}, process.memoryUsage.rss())
    metrics.set('process_start_time_seconds', {}, Math.round(Date.now() / 1000 - process.uptime()))
    metrics.clear('sandkasten_sessions')
    try {
      for (const { status, count } of await store.sessions.countByStatus(instanceId))
        metrics.set('sandkasten_sessions', { status }, count)
      metrics.set('sandkasten_store_file_bytes', {}, await store.size())
      metrics.set('sandkasten_store_up', {}, 1)
    } catch {
      metrics.set('sandkasten_store_up', {}, 0)
    }
  })
}

async function listen(app: ReturnType<typeof buildServer>, config: DaemonConfig): Promise<string> {
  const { host, port } = config.listen
  try {
    return await app.listen({ host, port })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const hints: Record<string, string> = {
      EADDRINUSE: `Another program uses this port. Stop it, or choose another port with listen: "${host}:${port + 2}".`,
      EACCES: 'Ports below 1024 need root. Choose another one.',
      EADDRNOTAVAIL: 'This machine does not have that address.',
    }
    throw new SandboxError('conflict', `The daemon cannot listen on ${host}:${port} (${code}).`, {
      cause: error,
      hint: hints[code ?? ''] ?? 'Change listen.',
    })
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined
  return () => {
    done ??= work()
    return done
  }
}
