import {
  type HelperMethods,
  type HomeProject,
  protocolVersion,
  type WorkspaceFacts,
  type WorkspaceInfo,
} from '@sandkasten/opencode/plugin'
import type { SandboxRecord } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { createPlace } from '../code/place.ts'
import { projectAt } from '../code/project.ts'
import { Memory } from '../code/remembered.ts'
import type { Opened } from '../open.ts'
import { createOptions, invalid, workspacePlan } from './options.ts'
import { WorkspaceProxy } from './proxy.ts'
import { versionOf } from './settings.ts'
import { Workspace, type WorkspaceSetup } from './workspace.ts'

export interface AllWorkspacesOptions {
  readonly opened: Opened
  readonly dataDir: string
  readonly signal: AbortSignal
  readonly notice: (text: string, level: 'info' | 'warning' | 'error') => void
}

type Params<Method extends keyof HelperMethods> = Parameters<HelperMethods[Method]>[0]
type PreparedSetup = Omit<WorkspaceSetup, 'name'>

/** The methods that the plugin calls. */
export class AllWorkspaces implements AsyncDisposable {
  readonly #options: AllWorkspacesOptions
  readonly #byId = new Map<string, Workspace>()
  readonly #prepared = new Map<string, Promise<PreparedSetup>>()
  #proxy: WorkspaceProxy | undefined

  constructor(options: AllWorkspacesOptions) {
    this.#options = options
  }

  async hello({ version, token, port }: Params<'hello'>): Promise<{ port: number }> {
    if (version !== protocolVersion)
      throw new SandboxError('unsupported', 'The plugin @sandkasten/opencode and sandkasten do not fit.', {
        hint: 'Install the same version of both.',
      })
    this.#proxy = await WorkspaceProxy.listen({ token, port, find: (id) => this.#byId.get(id) })
    return { port: this.#proxy.port }
  }

  /** Creates the sandbox, uploads the project, and starts its server. If that fails, nothing stays. */
  async create({ info, project: home }: Params<'create'>): Promise<WorkspaceFacts> {
    const { provider, name = info.name } = extraOf(info)
    const setup: WorkspaceSetup = { ...(await this.#prepare(home)), name }
    const place = await createPlace(
      { ...setup, label: labelOf(setup), purpose: 'opencode', sandbox: createOptions(home.options) },
      provider ?? home.options.provider,
    )
    const { hold, access } = place
    const memory = new Memory(this.#options.dataDir, hold.record.id)
    const workspace = await Workspace.of(hold.record.id, info.id, setup, memory)
    try {
      for (const variable of access.readable)
        this.#options.notice(
          `The agent in ${name} can read ${variable}: nothing can add it to requests outside of the sandbox.`,
          'warning',
        )
      const { server } = await workspace.begin(place)
      this.#byId.set(workspace.sandboxId, workspace)
      return factsOf(hold.record, server.directory)
    } catch (error) {
      await hold.release()
      await setup.opened.sandboxes.destroy(name, { force: true })
      await memory.remove()
      throw error
    }
  }

  async list({ project: home }: Params<'list'>): Promise<WorkspaceFacts[]> {
    const { project } = await this.#prepare(home)
    const label = labelOf({ project })
    const records = await this.#options.opened.sandboxes.list()
    return records.filter((one) => one.label === label).map((one) => factsOf(one, one.directory ?? null))
  }

  async target({ info, project }: Params<'target'>): Promise<ReturnType<HelperMethods['target']>> {
    const workspace = await this.#workspaceOf(info, project)
    return this.#proxy!.addressOf(workspace)
  }

  /** Also while others use it: the user has removed the workspace. */
  async remove({ info }: Params<'remove'>): Promise<null> {
    const { opened, dataDir } = this.#options
    const id = sandboxIdOf(info)
    await this.#byId.get(id)?.sleep()
    this.#byId.delete(id)
    const record = (await opened.sandboxes.list()).find((one) => one.id === id)
    try {
      if (record !== undefined) await opened.sandboxes.destroy(record.name, { force: true })
      await new Memory(dataDir, id).remove()
    } catch (error) {
      // opencode forgets the workspace all the same, and does not say why.
      const { message } = error as Error
      this.#options.notice(
        `${record?.name ?? id} was not removed: ${message} Try sandkasten sandbox destroy ${record?.name ?? id}`,
        'error',
      )
      throw error
    }
    return null
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#proxy?.close()
    await Promise.all([...this.#byId.values()].map((workspace) => workspace.sleep()))
  }

  async #workspaceOf(info: WorkspaceInfo, home: HomeProject): Promise<Workspace> {
    const id = sandboxIdOf(info)
    const setup: WorkspaceSetup = { ...(await this.#prepare(home)), name: info.name }
    const known = this.#byId.get(id)
    const isSame = known?.workspaceId === info.id
    if (!isSame) await known?.sleep()
    const memory = new Memory(this.#options.dataDir, id)
    const workspace = isSame ? known : await Workspace.of(id, info.id, setup, memory)
    const { name } = await workspace.record()
    workspace.setup = { ...setup, name }
    this.#byId.set(id, workspace)
    return workspace
  }

  /** opencode asks for the target with every request, so what it depends on is kept. */
  #prepare(home: HomeProject): Promise<PreparedSetup> {
    const key = JSON.stringify(home)
    const known = this.#prepared.get(key)
    if (known !== undefined) return known
    const prepared = this.#setupOf(home)
    this.#prepared.set(key, prepared)
    prepared.catch(() => this.#prepared.delete(key))
    return prepared
  }

  async #setupOf(home: HomeProject): Promise<PreparedSetup> {
    const { opened, signal, notice } = this.#options
    const project = await projectAt(home.folder)
    if (!project.isGit || project.head === undefined)
      throw invalid(
        `${home.folder} is no git repository with a commit.`,
        'opencode moves changes between workspaces with git: run git init, and commit.',
      )
    const [plan, version] = [workspacePlan(home, project), await versionOf(home.opencode)]
    const say = (text: string) => notice(text, 'warning')
    return {
      opened,
      project,
      plan,
      version,
      homeFolder: home.folder,
      signal,
      onProgress: () => {},
      notice: say,
    }
  }
}

/** Finds the workspaces of a project again. */
function labelOf({ project }: Pick<WorkspaceSetup, 'project'>): string {
  return `opencode workspace of ${project.folder}`.slice(0, 200)
}

function factsOf({ name, id }: SandboxRecord, directory: string | null): WorkspaceFacts {
  return { name, directory, extra: { sandbox: id } }
}

function sandboxIdOf({ extra, name }: WorkspaceInfo): string {
  const { sandbox } = (extra ?? {}) as { sandbox?: unknown }
  if (typeof sandbox === 'string') return sandbox
  throw invalid(`The workspace “${name}” has no sandbox.`, 'Remove it in opencode, and create another one.')
}

/** What the caller of opencode’s API may choose for one workspace. */
function extraOf({ extra }: WorkspaceInfo): { provider?: string; name?: string } {
  const { provider, name } = (extra ?? {}) as { provider?: unknown; name?: unknown }
  if (provider !== undefined && typeof provider !== 'string') throw invalid('`extra.provider` is not a text.')
  if (name !== undefined && typeof name !== 'string') throw invalid('`extra.name` is not a text.')
  return { provider, name }
}
