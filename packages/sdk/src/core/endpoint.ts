import { SandboxError } from '../errors.ts'
import type { EndpointProtocol, SandboxEndpoint } from '../spec/index.ts'
import { invalid } from './validate.ts'

const protocols: readonly EndpointProtocol[] = ['http', 'https', 'ws', 'wss']

export function checkProtocol(protocol: unknown): EndpointProtocol | undefined {
  if (protocol === undefined || protocols.includes(protocol as EndpointProtocol))
    return protocol as EndpointProtocol | undefined
  throw invalid(`The protocol ${String(protocol)} is not supported.`, `Use ${protocols.join(', ')}.`, {
    protocol,
  })
}

/** The endpoint with the scheme of this protocol. A provider's endpoints are HTTP, with or without TLS. */
export function withProtocol(
  endpoint: SandboxEndpoint,
  protocol: EndpointProtocol | undefined,
  provider: string,
): SandboxEndpoint {
  if (protocol === undefined) return endpoint
  const [, scheme, rest] = /^(https?)(:.*)$/s.exec(endpoint.url)!
  const tls = scheme === 'https'
  if (!tls && (protocol === 'https' || protocol === 'wss'))
    throw new SandboxError('unsupported', `The provider “${provider}” serves this port without TLS.`, {
      provider,
      details: { protocol },
      hint: `Use the protocol ${protocol === 'wss' ? 'ws' : 'http'}, or put a proxy with TLS in front.`,
    })
  const family = protocol.startsWith('ws') ? 'ws' : 'http'
  return { ...endpoint, url: `${family}${tls ? 's' : ''}${rest}` }
}
