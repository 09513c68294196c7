import { helperOf } from './helper.ts'
import type { Hooks, OpencodeConfig, PluginInput, WorkspaceAdapter } from './opencode.ts'
import type { HomeProject, HomeProvider, SandkastenPluginOptions } from './protocol.ts'

export type { Hooks, PluginInput, WorkspaceAdapter, WorkspaceInfo, WorkspaceTarget } from './opencode.ts'
export {
  type HelperLine,
  type HelperMethods,
  type HelperRequest,
  type HomeProject,
  type HomeProvider,
  protocolVersion,
  type SandkastenPluginOptions,
  type WorkspaceFacts,
} from './protocol.ts'

/** The type of the workspaces, as in `POST /experimental/workspace`. */
const type = 'sandkasten'

/**
 * Workspaces of opencode in sandboxes of any provider. Experimental, as workspaces are in opencode: they need
 * `OPENCODE_EXPERIMENTAL_WORKSPACES=true`.
 *
 *     opencode ─► plugin ──stdio──► sandkasten workspaces ─► registry ─► provider
 *        └──────────────────HTTP──► its proxy ─► opencode in the sandbox
 */
async function server(input: PluginInput, options: SandkastenPluginOptions = {}): Promise<Hooks> {
  // The opencode in a workspace reads the configuration of the same project.
  if (process.env.OPENCODE_WORKSPACE_ID !== undefined) return {}
  if (input.experimental_workspace === undefined)
    throw new Error('Workspaces in sandboxes need opencode 1.18 or later.')
  const { command = ['sandkasten'], ...rest } = options
  if (!Array.isArray(command) || command.length === 0 || command.some((word) => typeof word !== 'string'))
    throw new Error('The option `command` of the plugin is a list of words, such as ["npx", "sandkasten"].')
  const helper = helperOf(command)
  helper.onNotice = ({ notice: message, level }) => {
    const logged = level === 'warning' ? 'warn' : level
    // An opencode without a terminal shows nothing, so it is also in the log.
    input.client.tui.showToast({ body: { title: 'Sandkasten', message, variant: level } }).catch(() => {})
    input.client.app.log({ body: { service: type, level: logged, message } }).catch(() => {})
  }
  let project: HomeProject = {
    folder: input.worktree === '/' ? input.directory : input.worktree,
    options: rest,
    providers: {},
    opencode: process.execPath,
  }
  const adapter: WorkspaceAdapter = {
    name: 'Sandkasten',
    description: 'A sandbox with a copy of this project',
    // opencode stores a workspace after this, and keeps it if `create` fails. So everything is made here.
    async configure(info) {
      return { ...info, ...(await helper.call('create', { info, project })) }
    },
    async create() {},
    async list() {
      const all = await helper.call('list', { project })
      return all.map((facts) => ({ type, branch: null, projectID: input.project.id, ...facts }))
    },
    async remove(info) {
      await helper.call('remove', { info })
    },
    async target(info) {
      return { type: 'remote', ...(await helper.call('target', { info, project })) }
    },
  }
  input.experimental_workspace.register(type, adapter)
  return {
    async config(config) {
      project = { ...project, model: config.model, providers: providersOf(config) }
    },
  }
}

export default { id: 'sandkasten', server }

/** Without keys and headers: `credentials` names what travels. */
function providersOf({ provider = {} }: OpencodeConfig): Record<string, HomeProvider> {
  const entries = Object.entries(provider).flatMap(([id, one]): Array<[string, HomeProvider]> => {
    if (one === undefined) return []
    const { npm, name, models, options } = one
    const url = options?.baseURL
    const baseUrl = typeof url === 'string' ? url : undefined
    return [[id, { npm, name, models: withoutHeaders(models), baseUrl }]]
  })
  return Object.fromEntries(entries)
}

function withoutHeaders(models: Record<string, unknown> = {}): Record<string, unknown> {
  const plain = (model: unknown) =>
    typeof model === 'object' && model !== null ? { ...model, headers: undefined } : model
  return Object.fromEntries(Object.entries(models).map(([id, model]) => [id, plain(model)]))
}
