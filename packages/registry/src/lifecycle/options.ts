import { stat } from 'node:fs/promises'
import {
  type CreateOption,
  type CreateSandboxOpts,
  SandboxError,
  type SandboxProvider,
  supports,
} from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { CreateOptions, SandboxSettings } from '../types.ts'
import { checkedNetwork, networkOf } from './network.ts'

/** Checks what can be checked before anything exists. */
export async function checkCreateOptions(
  context: Context,
  provider: SandboxProvider,
  options: CreateOptions,
): Promise<void> {
  if (options.repo !== undefined && options.upload !== undefined)
    throw invalid('`repo` and `upload` are both given.', 'Choose one: both fill the folder of the project.')
  if (options.gitToken !== undefined && options.repo === undefined)
    throw invalid('`gitToken` is given without `repo`.', 'Pass the address of the repository.')
  if (options.repo !== undefined && hasCredentials(options.repo))
    throw invalid('The repository address contains credentials.', 'Pass the token as gitToken.')
  const { idleStopMs } = options
  if (idleStopMs !== undefined && !(Number.isSafeInteger(idleStopMs) && idleStopMs > 0))
    throw invalid('`idleStopMs` must be a positive number of milliseconds.')
  if (idleStopMs !== undefined && !canStop(provider) && !supports(provider, 'snapshot'))
    throw new SandboxError(
      'unsupported',
      `The provider “${provider.name}” can neither stop nor save sandboxes, so \`idleStopMs\` has no effect.`,
      {
        provider: provider.name,
        details: { option: 'idleStopMs' },
        hint: 'Leave it out, or choose a provider that can stop sandboxes.',
      },
    )
  if (options.upload !== undefined && !(await isFolder(options.upload)))
    throw invalid(`${options.upload} is not a folder of this machine.`, 'Pass the folder of the project.')
  for (const option of wantedOptions(options)) {
    if (provider.createOptions.has(option)) continue
    throw new SandboxError(
      'unsupported',
      `The provider “${provider.name}” does not support the option \`${option}\`.`,
      {
        provider: provider.name,
        details: { option },
        hint: `Leave it out, or choose ${await alternatives(context, provider, option)}.`,
      },
    )
  }
}

/** What a restore from a snapshot needs again. */
export function settingsOf(options: CreateOptions): SandboxSettings {
  const { image, runtime, labels, lifetimeMs, ports, resources, user, providerOptions } = options
  const network = options.network === undefined ? undefined : checkedNetwork(options.network)
  return { image, runtime, labels, lifetimeMs, ports, resources, user, network, providerOptions }
}

/** Options for a restore. A snapshot holds the image's programs already, and some providers refuse both together. */
export function restoreOptions(settings: SandboxSettings): CreateSandboxOpts {
  const { image: _, runtime: __, projectPath: ___, networkNext: ____, ...options } = settings
  const network = networkOf(settings)
  // Some providers do not have this option, and refuse it.
  return network === undefined ? options : { ...options, network }
}

export function canStop({ capabilities }: SandboxProvider): boolean {
  return capabilities.stop !== undefined || capabilities.pause !== undefined
}

function wantedOptions(options: CreateOptions): CreateOption[] {
  const { labels, envVars, ...rest } = {
    ...settingsOf(options),
    envVars: options.envVars,
    snapshotId: options.snapshotId,
  }
  const given = Object.entries(rest)
    .filter(([, value]) => value !== undefined)
    .map(([option]) => option as CreateOption)
  if (labels && Object.keys(labels).length > 0) given.push('labels')
  if (envVars && Object.values(envVars).some((value) => value !== undefined)) given.push('envVars')
  return given
}

/** Providers that are set up and support the option. */
async function alternatives(
  context: Context,
  refused: SandboxProvider,
  option: CreateOption,
): Promise<string> {
  const all = await context.providers.all().catch(() => [])
  const names = all
    .map(({ provider }) => provider)
    .filter(({ name, createOptions }) => name !== refused.name && createOptions.has(option))
    .map(({ name }) => name)
  return names.length === 0
    ? 'a provider that supports it'
    : `another provider: ${[...new Set(names)].join(', ')}`
}

function hasCredentials(address: string): boolean {
  if (!URL.canParse(address)) return false
  const { protocol, username, password } = new URL(address)
  return password !== '' || (username !== '' && protocol.startsWith('http'))
}

async function isFolder(folder: string): Promise<boolean> {
  return stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

function invalid(message: string, hint?: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}
