import { isIP } from 'node:net'
import { SandboxError } from '@sandkasten/sdk'
import type { DaemonConfig } from './config.ts'

export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** `127.0.0.1:8080`, `[::1]:8080`, `localhost:0`. */
export function parseListen(text: string): ListenAddress {
  const match = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(text)
  const port = Number(match?.[3])
  const host = match?.[1] ?? match?.[2]
  if (!match || port > 65_535 || !host)
    throw new SandboxError('invalid_argument', `listen: “${text}” is not an address and a port.`, {
      hint: 'Use for example 127.0.0.1:8080 or [::1]:8080.',
    })
  return { host, port }
}

/** Previews have their own listener, so that no page of a sandbox shares an origin with the API. */
export function previewListen(text: string | undefined, api: ListenAddress): ListenAddress | undefined {
  if (text === 'off') return undefined
  if (text === undefined) return { host: api.host, port: api.port === 0 ? 0 : (api.port % 65_535) + 1 }
  const given = parseListen(text)
  if (given.port === 0 || given.port !== api.port) return given
  throw new SandboxError('invalid_argument', 'preview_listen: previews cannot share the port of the API.', {
    hint: 'Choose another port, or leave it out.',
  })
}

export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true
  return isIP(host) === 4 && host.startsWith('127.')
}

/** Requires TLS and a long key for an address that other machines can reach. */
export function refuseUnsafe(config: DaemonConfig): void {
  if (!config.allowed_images.includes(config.default_image))
    throw new SandboxError(
      'invalid_argument',
      `default_image “${config.default_image}” is not in allowed_images.`,
      {
        hint: 'Add it to allowed_images, or choose another default.',
      },
    )
  if (!config.allowed_networks.includes(config.defaults.network_mode))
    throw new SandboxError(
      'invalid_argument',
      `defaults.network_mode “${config.defaults.network_mode}” is not in allowed_networks.`,
      {
        hint: 'Add it to allowed_networks.',
      },
    )
  const fronts = Object.values(config.fronts).map(({ listen }) => listen)
  const open = [config.listen, config.preview_listen, ...fronts].find((at) => at && !isLoopback(at.host))
  if (!open) return
  if (!config.behind_tls)
    throw new SandboxError(
      'invalid_argument',
      `listen: other machines can reach ${open.host}, and keys would be sent in clear text.`,
      {
        hint: 'Listen on 127.0.0.1, or use a TLS proxy and set behind_tls: true.',
      },
    )
  if (config.api_key !== undefined && config.api_key.length < 24)
    throw new SandboxError(
      'invalid_argument',
      'api_key is too short for an address that other machines can reach.',
      {
        hint: 'Use 24 characters or more, or leave it out: the first start creates a key.',
      },
    )
}
