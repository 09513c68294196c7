import type { HomeProject, HomeProvider, SandkastenPluginOptions } from '@sandkasten/opencode/plugin'
import type { CreateOptions } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { accessesOf } from '../code/access.ts'
import { modelOf } from '../code/model.ts'
import type { Plan } from '../code/plan.ts'
import type { Project } from '../code/project.ts'

type Options = Omit<SandkastenPluginOptions, 'command'>

const known: ReadonlyArray<keyof Options> = [
  'provider',
  'model',
  'modelUrl',
  'credentials',
  'allow',
  'deny',
  'network',
  'sandbox',
]

/** Checks what a user wrote into opencode’s configuration. */
export function checkOptions(options: Options): void {
  const strange = Object.keys(options).find((name) => !known.includes(name as keyof Options))
  if (strange !== undefined) throw invalid(`There is no option “${strange}”.`, `Use ${known.join(', ')}.`)
  for (const name of ['provider', 'model', 'modelUrl'] as const)
    if (options[name] !== undefined && typeof options[name] !== 'string')
      throw invalid(`The option \`${name}\` is not a text.`)
  for (const name of ['credentials', 'allow', 'deny'] as const)
    if (options[name] !== undefined && !isTexts(options[name]))
      throw invalid(`The option \`${name}\` is not a list of texts.`)
  const { network, sandbox = {}, credentials = [] } = options
  if (network !== undefined && (options.allow !== undefined || options.deny !== undefined))
    throw invalid('`network` does not go with `allow` and `deny`.', 'Write the rules into the policy.')
  if (typeof network === 'string' && network !== 'none' && network !== 'open')
    throw invalid('`network` is `none`, `open` or a policy.')
  if (typeof sandbox !== 'object' || sandbox === null) throw invalid('The option `sandbox` is not an object.')
  const wrong = credentials.find((name) => !/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(name))
  // It may be the key itself, so it is not repeated.
  if (wrong !== undefined)
    throw invalid('`credentials` has names of variables, such as ANTHROPIC_API_KEY.', 'Export the key.')
  const absent = credentials.find((name) => !process.env[name])
  if (absent !== undefined)
    throw invalid(
      `The variable ${absent} of \`credentials\` is not set.`,
      'Export it where you start opencode.',
    )
}

export interface WorkspacePlan extends Plan {
  /** The provider of the model, as opencode at home describes it. */
  readonly modelProvider?: HomeProvider
}

/** The model of the workspaces, and the ways to reach it. */
export function workspacePlan({ options, model: atHome, providers }: HomeProject, project: Project) {
  checkOptions(options)
  const { credentials = [], network, allow, deny, model: name = atHome } = options
  if (name === undefined)
    throw invalid(
      'No model is configured.',
      'Set `model` in opencode’s configuration, or in the options of the plugin.',
    )
  if (!/^[\w.-]{1,60}\/[^\s\p{Cc}]{1,200}$/u.test(name))
    throw invalid('The model has the form provider/model.', 'Such as anthropic/claude-sonnet-4-5.')
  const id = name.split('/')[0]!
  const modelProvider = Object.hasOwn(providers, id) ? providers[id] : undefined
  const modelUrl = options.modelUrl ?? modelProvider?.baseUrl
  const model = modelOf({ agent: 'opencode', model: name, modelUrl, credentials })
  if (model.url === undefined && network === undefined && allow === undefined)
    throw invalid(
      `The address of the model provider “${id}” is not known.`,
      'Set `modelUrl` in the options of the plugin, or `allow` with its host.',
    )
  const given = { network, allow, deny, credentials, model, remote: project.remote }
  const plan: WorkspacePlan = {
    agent: 'opencode',
    model,
    accesses: accessesOf(given),
    choices: {},
    modelProvider,
  }
  return plan
}

/** Options of a new sandbox. The provider checks them. */
export function createOptions({ sandbox = {} }: Options): CreateOptions {
  const { memoryMb, vcpus, diskMb, ...rest } = sandbox
  const resources = { memoryMb, vcpus, diskMb }
  const isGiven = Object.values(resources).some((value) => value !== undefined)
  return isGiven ? { ...rest, resources } : rest
}

export function invalid(message: string, hint = 'See the options of the plugin.'): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string')
}
