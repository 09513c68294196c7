import { type AgentCredential, modelNetwork, modelUrl } from '@sandkasten/opencode'
import type { Network, NetworkPolicy, NetworkRule } from '@sandkasten/sdk'
import { type NetworkOptions, networkOf, sdkNetwork } from '../../network-choice.ts'
import { addressOf, type Model } from './model.ts'
import type { RemoteHost } from './project.ts'

/** What the sandbox reaches, and which keys the agent gets. */
export interface Access {
  /** Undefined: the provider's default. */
  readonly network?: Network
  readonly credentials: readonly AgentCredential[]
  /** Variables whose values the agent can read. */
  readonly readable: readonly string[]
  /** The model's URL as the sandbox sees it, if it was given. */
  readonly modelUrl?: string
}

export interface AccessOptions extends NetworkOptions {
  readonly model: Model
  readonly remote?: RemoteHost | undefined
  readonly credentials: readonly string[]
}

/**
 * Ways to reach the model, the best first. Providers refuse those that they cannot enforce: some know no ports, some
 * add no secrets, some have no policies. What the user asked for is in all of them, or it fails.
 */
export function accessesOf(options: AccessOptions): Access[] {
  const { model, credentials, network } = options
  const plain = { credentials: credentials.map((variable) => ({ variable })), readable: credentials }
  if (network !== undefined)
    return [
      { ...plain, network: sdkNetwork(networkOf(options)!) as Network, modelUrl: urlIn(model, network) },
    ]
  const inside = model.isCustom ? modelUrl({ url: model.url! }) : undefined
  const policy = (secret?: string) => policyOf(options, secret)
  const key = canBroker(model) ? model.key : undefined
  const rest = credentials.filter((name) => name !== key)
  const brokered = {
    credentials: [
      ...(key === undefined ? [] : [{ variable: key, secret: key }]),
      ...rest.map((variable) => ({ variable })),
    ],
    readable: rest,
  }
  const ways: Access[] = [
    { ...brokered, network: policy(key), modelUrl: inside },
    { ...brokered, network: withoutPorts(policy(key)), modelUrl: inside },
    ...(key === undefined ? [] : [{ ...plain, network: withoutPorts(policy()), modelUrl: inside }]),
  ]
  const isAsked = options.allow !== undefined || options.deny !== undefined || options.audit === true
  return isAsked ? ways : [...ways, { ...plain, modelUrl: model.isCustom ? model.url : undefined }]
}

/** A secret is added to HTTPS requests to a name on port 443 only. */
function canBroker({ url, key }: Model): boolean {
  if (url === undefined || key === undefined || !URL.canParse(url)) return false
  const { protocol, hostname, port } = new URL(url)
  return protocol === 'https:' && port === '' && /[a-z]/i.test(hostname) && !hostname.includes(':')
}

function policyOf({ model, remote, allow = [], deny, audit }: AccessOptions, secret?: string): NetworkPolicy {
  const address = addressOf(model, secret)
  const base: NetworkPolicy = address === undefined ? { allow: [] } : modelNetwork(address)
  const repository: NetworkRule[] = remote === undefined ? [] : [ruleOf(remote)]
  return {
    ...base,
    allow: [...(base.allow ?? []), ...repository, ...allow],
    ...(deny === undefined ? {} : { deny }),
    ...(audit ? { audit } : {}),
  }
}

function ruleOf({ host, port }: RemoteHost): NetworkRule {
  if (/^[\d.]+$/.test(host)) return { cidr: host, ports: [port] }
  return { host, ports: [port] }
}

/** For vendors whose policies have names only. */
function withoutPorts(policy: NetworkPolicy): NetworkPolicy {
  const bare = (rule: NetworkRule): NetworkRule => {
    if (typeof rule === 'string') return rule
    if ('host' in rule) return rule.host
    return 'cidr' in rule ? rule.cidr : rule
  }
  return { ...policy, allow: (policy.allow ?? []).map(bare) }
}

/** A policy of the user's own may have the model as a service. */
function urlIn(model: Model, network: NetworkOptions['network']): string | undefined {
  if (!model.isCustom) return undefined
  const services = typeof network === 'object' ? (network.services as object | undefined) : undefined
  return services !== undefined && 'model' in services ? modelUrl({ url: model.url! }) : model.url
}
