import { stat } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import type { AgentName, ModelAddress } from '@sandkasten/opencode'
import { SandboxError } from '@sandkasten/sdk'
import { invalid } from './options.ts'

export interface ModelOptions {
  readonly agent: AgentName
  readonly model?: string | undefined
  readonly modelUrl?: string | undefined
  readonly credentials: readonly string[]
}

/** The model that the agent calls, and where it is. */
export interface Model {
  /** `provider/model` for opencode, the model alone for others. Undefined: the agent's default. */
  readonly name?: string
  readonly provider: string
  readonly model?: string
  /** As this machine sees it. Undefined: unknown, so --allow has to name it. */
  readonly url?: string
  /** Whether the URL was given, and replaces the agent's own. */
  readonly isCustom: boolean
  /** The variable with its key. */
  readonly key?: string
  /** The header of the key. Undefined: `authorization`. */
  readonly header?: string
}

interface KnownProvider {
  readonly url: string
  readonly key: string
  readonly header?: string
}

export const knownProviders: Readonly<Record<string, KnownProvider>> = {
  anthropic: { url: 'https://api.anthropic.com', key: 'ANTHROPIC_API_KEY', header: 'x-api-key' },
  openai: { url: 'https://api.openai.com', key: 'OPENAI_API_KEY' },
}

export function modelOf({ agent, model, modelUrl, credentials }: ModelOptions): Model {
  const { provider, name } = agent === 'claude' ? claudeModel(model) : opencodeModel(model, modelUrl)
  const known = Object.hasOwn(knownProviders, provider) ? knownProviders[provider] : undefined
  const url = modelUrl ?? known?.url
  const ownKey = known?.key ?? `${provider.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}_API_KEY`
  const key = credentials.find((one) => one === ownKey) ?? credentials.find((one) => /API_?KEY$/i.test(one))
  return {
    name: agent === 'opencode' && name !== undefined ? `${provider}/${name}` : name,
    provider,
    model: name,
    url,
    isCustom: modelUrl !== undefined,
    key,
    header: known?.header,
  }
}

interface Named {
  provider: string
  name?: string
}

function claudeModel(model: string | undefined): Named {
  return { provider: 'anthropic', name: model?.replace(/^anthropic\//, '') }
}

function opencodeModel(model: string | undefined, url: string | undefined): Named {
  if (model === undefined && url !== undefined)
    throw invalid(
      '--model-url needs --model.',
      'Name the model at that address, such as --model local/qwen3.',
    )
  if (model === undefined) return { provider: '' }
  const [, provider, name] = /^([\w.-]{1,60})\/([^\s\p{Cc}]{1,200})$/u.exec(model) ?? []
  if (name === undefined)
    throw invalid(
      '--model has the form provider/model.',
      'Such as anthropic/claude-sonnet-4-5, or local/qwen3.',
    )
  return { provider: provider!, name }
}

/** Without a model opencode would use one that the sandbox does not reach. A project may have its own configuration. */
export async function requireModel({ agent, model }: ModelOptions, folder: string): Promise<void> {
  if (agent !== 'opencode' || model !== undefined) return
  for (const file of ['opencode.json', 'opencode.jsonc']) {
    const found = await stat(path.join(folder, file)).catch(() => undefined)
    if (found?.isFile()) return
  }
  throw invalid(
    'No model is configured.',
    'Pass --model provider/model with --credential NAME of its key, or with --model-url of a server on this machine. ' +
      'Later runs in this folder remember both.',
  )
}

/** A model on this machine that does not answer would only show up as an endless wait in the agent. */
export async function requireAnswer({ url }: Pick<Model, 'url'>, signal?: AbortSignal): Promise<void> {
  if (url === undefined || !URL.canParse(url)) return
  const { hostname, port, protocol } = new URL(url)
  if (!/^(localhost|127\..*|\[::1\])$/.test(hostname)) return
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const socket = net.connect({ host, port: Number(port) || (protocol === 'https:' ? 443 : 80), signal })
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve).once('error', reject)
      socket.setTimeout(connectMs, () => reject(new Error('no answer')))
    })
  } catch (cause) {
    if (signal?.aborted) throw new SandboxError('aborted', 'The start was cancelled.', { cause })
    throw new SandboxError('unavailable', `No model answers at ${new URL(url).origin}.`, {
      hint: 'Start its server, or pass another --model-url.',
      cause,
    })
  } finally {
    socket.destroy()
  }
}

const connectMs = 5_000

/** For the network of the sandbox. */
export function addressOf({ url, header }: Model, secret?: string): ModelAddress | undefined {
  if (url === undefined) return undefined
  return secret === undefined ? { url } : { url, secret, ...(header === undefined ? {} : { header }) }
}
