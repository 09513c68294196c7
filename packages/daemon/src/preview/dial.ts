import { type ClientRequest, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { type SandboxEndpoint, SandboxError } from '@sandkasten/sdk'

/**
 * A request to the sandbox's port, its head given and nothing sent yet. A connection for each: what one answer leaves on a
 * connection is never taken for the beginning of the next one's.
 */
export function dial(
  endpoint: SandboxEndpoint,
  { method, path, headers }: { method: string; path: string; headers: readonly string[] },
): ClientRequest {
  const { protocol, hostname, port } = new URL(endpoint.url)
  const send = protocol === 'https:' ? requestHttps : requestHttp
  return send({
    host: hostname.replace(/^\[|\]$/g, ''),
    ...(port === '' ? {} : { port: Number(port) }),
    method,
    path,
    headers: [...headers, ...Object.entries(endpoint.headers).flat()],
    agent: false,
    setHost: false,
    insecureHTTPParser: false,
  })
}

/** Why nothing came back, in our words. */
export function dialError(cause: unknown, port: number): SandboxError {
  const { code = '' } = cause as NodeJS.ErrnoException
  if (code.startsWith('HPE_'))
    return new SandboxError(
      'provider_error',
      `What listens on port ${port} of the sandbox does not speak HTTP.`,
      {
        cause,
        hint: 'Is it the right port?',
      },
    )
  return new SandboxError('connection_lost', `Nothing answers on port ${port} of the sandbox.`, {
    cause,
    hint: 'Start a server there, on 127.0.0.1 or on all addresses, and try again.',
  })
}
