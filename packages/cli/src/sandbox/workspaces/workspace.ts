import { EventEmitter, once } from 'node:events'
import type { AgentServer } from '@sandkasten/opencode'
import type { Hold, SandboxRecord } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { pullChanges, uploadProject } from '@sandkasten/sdk/recipes'
import { applyNetwork, directoryOf, type Place, type Setup } from '../code/place.ts'
import type { Memory } from '../code/remembered.ts'
import { startAgent } from '../code/server.ts'
import type { WorkspacePlan } from './options.ts'
import { Paths } from './paths.ts'
import { type KnownSessions, SessionSync } from './session-sync.ts'
import { type AgentVersion, settingsFor } from './settings.ts'

/** What a workspace is made with. Changes when opencode’s configuration does. */
export interface WorkspaceSetup extends Setup {
  readonly plan: WorkspacePlan
  readonly version: AgentVersion
  /** The project's folder as opencode at home names it. */
  readonly homeFolder: string
  readonly notice: (text: string) => void
}

export interface Awake {
  readonly hold: Hold
  readonly server: AgentServer
  readonly paths: Paths
}

/** After this long without requests and events, others may stop the sandbox. */
const holdMs = 5 * 60_000
/** How long the first request after a start waits until opencode listens to events again. */
const listenMs = 10_000
const warmUpMs = 180_000

/**
 * One sandbox, and the opencode server in it. It starts with the first request that needs it. Requests interleave; they
 * share one start and one hold.
 */
export class Workspace {
  readonly sandboxId: string
  setup: WorkspaceSetup
  /** The id that opencode has for it. A server of another id is replaced. */
  readonly workspaceId: string
  readonly sessions: SessionSync
  readonly #memory: Memory
  readonly #changes = new EventEmitter<{ awake: []; listening: []; over: [] }>()
  #saving: Promise<unknown> = Promise.resolve()
  #awake: Promise<Awake> | undefined
  /** Resolves when opencode listens to the events of this start. */
  #heard: Promise<unknown> = Promise.resolve()
  #moving: Promise<void> = Promise.resolve()
  #upToDate: Promise<void> | undefined
  #requests = 0
  #listeners = 0
  #idle: NodeJS.Timeout | undefined

  private constructor(
    sandboxId: string,
    workspaceId: string,
    setup: WorkspaceSetup,
    memory: Memory,
    known: KnownSessions,
  ) {
    this.sandboxId = sandboxId
    this.workspaceId = workspaceId
    this.setup = setup
    this.#memory = memory
    this.sessions = new SessionSync(known, (sessions) => this.#remember(sessions))
    this.#changes.setMaxListeners(0)
  }

  static async of(sandboxId: string, workspaceId: string, setup: WorkspaceSetup, memory: Memory) {
    const { workspace } = await memory.read()
    const known = workspace?.id === workspaceId ? workspace.sessions : {}
    return new Workspace(sandboxId, workspaceId, setup, memory, known)
  }

  /** Runs work with the server, which is started if needed. */
  async use<T>(work: (awake: Awake) => Promise<T>): Promise<T> {
    this.#requests += 1
    clearTimeout(this.#idle)
    try {
      const awake = await this.wake()
      await this.#moving
      await this.#heard
      await this.#isUpToDate()
      return await work(awake)
    } finally {
      this.#requests -= 1
      this.touch()
    }
  }

  /** Starts the sandbox and its server, or finds them. */
  wake(): Promise<Awake> {
    if (this.#awake !== undefined) return this.#awake
    const start = this.#start()
    this.#awake = start
    start.then(
      (awake) => {
        this.#heard = this.#listened()
        this.#watch(awake)
      },
      () => {
        if (this.#awake === start) this.#awake = undefined
      },
    )
    return start
  }

  /** Starts the server in a new sandbox, and takes over its hold. */
  async begin(place: Place): Promise<Awake> {
    const awake = await this.#serve(place)
    await warmUp(awake.server, this.setup.signal)
    this.#awake = Promise.resolve(awake)
    this.#watch(awake)
    this.touch()
    return awake
  }

  /** Something happened in the sandbox: it stays held for some time. */
  touch(): void {
    clearTimeout(this.#idle)
    if (this.#requests === 0) this.#idle = setTimeout(() => void this.sleep(), holdMs).unref()
  }

  /** Whether the sandbox runs, as its provider says. Starts nothing. */
  async isRunning(): Promise<boolean> {
    if (this.#awake !== undefined) return true
    const { id, provider } = await this.record()
    const { sandboxes } = this.setup.opened
    const asked = await sandboxes.list({ provider, refresh: true, signal: this.setup.signal })
    const found = asked.find((one) => one.id === id)
    return found?.status === 'running' && !found.unreachable
  }

  /** Resolves when the sandbox is started. */
  async awake(signal: AbortSignal): Promise<void> {
    await once(this.#changes, 'awake', { signal }).catch(() => {})
  }

  /** Resolves when opencode has to connect again: the server or its sandbox ended, or a session has come here. */
  async over(signal: AbortSignal): Promise<void> {
    await once(this.#changes, 'over', { signal }).catch(() => {})
  }

  /** opencode has asked for the events that it missed. */
  caughtUp(): void {
    this.#changes.emit('listening')
    // It asked before it had the answer to a move. It connects and asks once more.
    if (this.sessions.isArriving) this.#changes.emit('over')
  }

  /** Counts opencode’s event streams. Returns the function that ends this one. */
  listen(): () => void {
    this.#listeners += 1
    this.#changes.emit('listening')
    return () => {
      this.#listeners -= 1
    }
  }

  /** Sends what changed at home, as far as it did not change here. */
  async upload(): Promise<void> {
    const { project, signal, notice, name } = this.setup
    const { hold } = await this.wake()
    const options = { projectDir: project.folder, remotePath: directoryOf(hold), signal }
    const { conflicts } = await uploadProject(hold.handle, options)
    if (conflicts.length === 0) return
    const shown = conflicts.slice(0, 5).map(({ path }) => path)
    const more = conflicts.length > 5 ? ` and ${conflicts.length - 5} more` : ''
    notice(`Changed both here and in ${name}, and not sent: ${shown.join(', ')}${more}.`)
  }

  /**
   * Lets a session come here. opencode may number events of the session until it has its answer, so its changes are sent
   * afterwards, before the next request.
   */
  async move(work: (awake: Awake) => Promise<void>): Promise<void> {
    const done = Promise.withResolvers<void>()
    const awake = await this.wake()
    this.#moving = done.promise
    // What happens meanwhile is in the history that opencode gets when it connects again.
    this.#changes.emit('over')
    try {
      await work(awake)
    } finally {
      this.#heard = this.#listened()
      this.#upToDate = this.upload()
      this.#upToDate.catch(({ message }: Error) =>
        this.setup.notice(`Changes of this folder are not in ${this.setup.name}: ${message}`),
      )
      done.resolve()
    }
  }

  /** Resolves when no session is on its way. */
  async moved(): Promise<void> {
    await this.#moving
  }

  /** What changed here and is not at home. Undefined if a file changed in both places. */
  async patch(): Promise<string | undefined> {
    const { project, signal } = this.setup
    return this.use(async ({ hold }) => {
      const options = {
        projectDir: project.folder,
        remotePath: directoryOf(hold),
        as: 'patch',
        signal,
      } as const
      const { patch, conflicts, skipped } = await pullChanges(hold.handle, options)
      for (const { path, reason } of skipped) this.setup.notice(`${path} stays in the workspace: ${reason}.`)
      return conflicts.length === 0 ? patch : undefined
    })
  }

  async record(): Promise<SandboxRecord> {
    const { opened, name, signal } = this.setup
    const record = (await opened.sandboxes.list({ signal })).find(({ id }) => id === this.sandboxId)
    if (record !== undefined) return record
    throw new SandboxError('not_found', `The sandbox of the workspace “${name}” was destroyed.`, {
      hint: 'Remove the workspace in opencode.',
    })
  }

  /** Others may stop the sandbox now. The next request looks for its server again. */
  async sleep(): Promise<void> {
    clearTimeout(this.#idle)
    await this.#saving
    const awake = this.#awake
    this.#awake = undefined
    await awake?.then(
      ({ hold }) => hold.release(),
      () => {},
    )
  }

  /** Gives up this server: it does not answer, or its sandbox has ended. */
  async forget(gone: Awake): Promise<void> {
    if ((await this.#awake?.catch(() => undefined)) !== gone) return
    await this.sleep()
    this.#changes.emit('over')
  }

  async #start(): Promise<Awake> {
    const { opened, plan, signal } = this.setup
    const { name } = await this.record()
    const hold = await opened.sandboxes.hold(name, { purpose: 'opencode', signal })
    try {
      const access = await applyNetwork(hold, plan, signal)
      return await this.#serve({ hold, access })
    } catch (error) {
      await hold.release()
      throw error
    }
  }

  /** Finds the server, or starts it. */
  async #serve(place: Place): Promise<Awake> {
    const { setup } = this
    const settings = settingsFor(setup.plan, place.access, setup.version, this.workspaceId)
    const start = async (binary: string | undefined) =>
      (await startAgent(setup, place, { ...settings, binary }, this.#memory)).server!
    const server = await start(settings.binary).catch((error: unknown) => {
      // A sandbox with another processor or libc cannot run the program of this machine.
      if (!SandboxError.is(error, 'unsupported') || error.details?.binary === undefined) throw error
      return start(undefined)
    })
    return { hold: place.hold, server, paths: new Paths(setup.homeFolder, server.directory) }
  }

  /** Throws once if changes of home could not be sent, so that the user knows before the agent works without them. */
  async #isUpToDate(): Promise<void> {
    const upload = this.#upToDate
    try {
      await upload
    } finally {
      if (this.#upToDate === upload) this.#upToDate = undefined
    }
  }

  #watch(awake: Awake): void {
    awake.hold.signal.addEventListener('abort', () => void this.forget(awake))
  }

  #remember(sessions: KnownSessions): void {
    const workspace = { id: this.workspaceId, sessions }
    this.#saving = this.#saving
      .then(() => this.#memory.add({ workspace }))
      .catch(({ message }: Error) =>
        this.setup.notice(`The sessions of the workspace are not saved: ${message}`),
      )
  }

  /** opencode asks for the events that it missed when it listens again, and a request waits for that. */
  async #listened(): Promise<void> {
    this.#changes.emit('awake')
    const signal = AbortSignal.timeout(listenMs)
    while ((this.#listeners === 0 || this.sessions.isArriving) && !signal.aborted)
      await once(this.#changes, 'listening', { signal }).catch(() => {})
  }
}

/**
 * Waits until the server has loaded the project. That takes long if the project has plugins, which opencode installs, and
 * opencode at home waits only 5 seconds for a new workspace.
 */
async function warmUp({ url, headers }: AgentServer, signal: AbortSignal): Promise<void> {
  const address = new URL(url)
  address.pathname = `${address.pathname.replace(/\/$/, '')}/sync/history`
  const response = await fetch(address, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: '{}',
    signal: AbortSignal.any([signal, AbortSignal.timeout(warmUpMs)]),
    redirect: 'manual',
  })
  await response.body?.cancel()
  if (response.ok) return
  throw new SandboxError(
    'unavailable',
    `opencode in the sandbox does not load the project: ${response.status}.`,
    {
      hint: 'See whether the configuration of opencode in the project is valid.',
    },
  )
}
