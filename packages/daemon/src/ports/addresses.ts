import { type DaemonConfig, isLoopback } from '../config/index.ts'

/**
 * The URLs of previews, in two forms:
 *
 *     http://3000-<id>.<domain>/…          a host name, and so an origin, for each port; for browsers
 *     http://<host>:<port>/p/3000-<id>/…   one origin for all; for programs, and where such names do not resolve
 */
export class Addresses {
  readonly domain: string | undefined
  readonly #base: URL

  /** `listening`: the address of the preview listener. */
  constructor(config: DaemonConfig, listening: string) {
    const { behind_tls: tls, preview_url: given, preview_listen: at } = config
    this.domain = config.domain ?? (at && isLoopback(at.host) ? 'localhost' : undefined)
    this.#base = new URL(given ?? (tls && config.domain ? `https://${config.domain}` : listening))
  }

  get secure(): boolean {
    return this.#base.protocol === 'https:'
  }

  url(id: string, port: number): string | undefined {
    if (this.domain === undefined) return undefined
    const outside = this.#base.port ? `:${this.#base.port}` : ''
    return `${this.#base.protocol}//${port}-${id}.${this.domain}${outside}`
  }

  pathUrl(id: string, port: number): string {
    return `${this.#base.origin}${prefixOf(id, port)}`
  }

  /** Finds the port that a request's host and path name. Undefined for other requests. */
  find(host: string, path: string): Target | undefined {
    const name = /^([a-z0-9.-]{1,253}|\[[0-9a-f:.]+\])(:\d{1,5})?$/.exec(host.toLowerCase())?.[1]
    if (name === undefined) return undefined
    if (this.domain !== undefined && name.endsWith(`.${this.domain}`)) {
      // Below the domain the whole path belongs to the sandbox, so the path form of another preview is not served there.
      const [, port, id] = /^(\d{1,5})-([a-z2-7]{16})$/.exec(name.slice(0, -this.domain.length - 1)) ?? []
      return targetOf(id, port, { form: 'name', prefix: '', rest: path })
    }
    const match = /^(\/p\/(\d{1,5})-([a-z2-7]{16}))(\/~((?:l1\.|pt-)[\w.-]{1,200}))?([/?].*)?$/.exec(path)
    if (!match) return undefined
    const [, prefix, port, id, segment = '', token, rest = ''] = match
    const found = targetOf(id, port, { form: 'path', prefix: `${prefix}${segment}`, rest })
    return found && token !== undefined ? { ...found, token } : found
  }
}

/** The target of a request. `rest` is the path that the sandbox sees, `prefix` the part before it. */
export interface Target {
  readonly id: string
  readonly port: number
  readonly form: 'name' | 'path'
  readonly prefix: string
  readonly rest: string
  /** The path form may have a token in the path, so that relative links keep it. */
  readonly token?: string
}

export function prefixOf(id: string, port: number): string {
  return `/p/${port}-${id}`
}

function targetOf(
  id: string | undefined,
  port: string | undefined,
  rest: Pick<Target, 'form' | 'prefix' | 'rest'>,
): Target | undefined {
  const number = Number(port)
  if (id === undefined || port === undefined || port.startsWith('0') || number > 65_535) return undefined
  return { id, port: number, ...rest }
}
