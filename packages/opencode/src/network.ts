import { isIP } from 'node:net'
import { type NetworkPolicy, SandboxError, secret } from '@sandkasten/sdk'

export interface ModelAddress {
  /**
   * The base URL of the model’s API, as this machine sees it: `https://api.example.com/v1`, `http://127.0.0.1:8899/v1`.
   * For a service of a daemon: `http://model.sandkasten.internal/v1`.
   */
  readonly url: string
  /** For a model on this machine’s loopback: the name of the service in the sandbox. Default `model`. */
  readonly name?: string
  /** The name of the secret with the model’s key. It is added outside the sandbox, to HTTPS requests only. */
  readonly secret?: string
  /** The header of the secret. Default: `authorization`, with `Bearer ` before the value. */
  readonly header?: string
}

/** A policy that allows the model’s address, and nothing else. */
export function modelNetwork(options: ModelAddress): NetworkPolicy {
  const { secret: key, name = 'model' } = options
  const url = checked(options.url)
  const host = hostOf(url)
  const isTls = url.protocol === 'https:'
  const port = Number(url.port || (isTls ? 443 : 80))
  // The gateway refuses requests on other ports in connections that it opens.
  if (key !== undefined && (!isTls || isIP(host) !== 0 || port !== 443))
    throw new SandboxError(
      'invalid_argument',
      'A secret can be added only to HTTPS requests to a host name, on port 443.',
      { hint: 'Use an https: URL with a host name and no port, or leave `secret` out.' },
    )
  if (isLoopback(host))
    return { allow: [], services: { [name]: { host: host === 'localhost' ? '127.0.0.1' : host, port } } }
  const ofDaemon = /^([a-z0-9-]+)\.sandkasten\.internal$/.exec(host)?.[1]
  if (ofDaemon !== undefined) return { allow: [], services: { [ofDaemon]: { host, port } } }
  const rule =
    isIP(host) === 0
      ? ({ host, ports: [port], protocol: isTls ? 'tls' : 'http' } as const)
      : { cidr: host, ports: [port] }
  if (key === undefined) return { allow: [rule] }
  const { header = 'authorization' } = options
  const value = options.header === undefined ? secret(key, { prefix: 'Bearer ' }) : secret(key)
  return { allow: [rule], transform: [{ match: { host }, headers: { [header]: value } }] }
}

/** The URL of the same model as the sandbox with this policy sees it. */
export function modelUrl({ url: given, name = 'model' }: Pick<ModelAddress, 'url' | 'name'>): string {
  const url = checked(given)
  if (!isLoopback(hostOf(url))) return given
  return `http://${name}.sandkasten.internal${url.pathname.replace(/\/$/, '')}${url.search}`
}

function checked(given: string): URL {
  const url = URL.canParse(given) ? new URL(given) : undefined
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  const isWrong = !url || !isHttp || url.username !== '' || url.password !== ''
  if (isWrong || (isLoopback(hostOf(url)) && url.protocol === 'https:'))
    throw new SandboxError('invalid_argument', 'The URL of the model is invalid.', {
      hint: 'Use http: or https: without a user, and http: for a model on this machine’s loopback.',
    })
  return url
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1')
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\./.test(host)
}
