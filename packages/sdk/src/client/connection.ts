import { SandboxError } from '../errors.ts'

/** Which daemon to use. Whatever is left out comes from the environment. */
export interface ConnectionOptions {
  /** Where the daemon is, such as `http://127.0.0.1:8080`. Default: `SANDKASTEN_URL`. */
  url?: string | undefined
  /** @deprecated The old name of `url`. */
  baseUrl?: string | undefined
  /** Default: `SANDKASTEN_API_KEY`. */
  apiKey?: string | undefined
  /** Instead of the global one. */
  fetch?: typeof globalThis.fetch
}

export interface DaemonConnection {
  readonly url: string
  readonly apiKey: string
  readonly fetch?: typeof globalThis.fetch
}

/** One rule for every client: an option counts, then the environment. Throws `invalid_argument` for what is missing or malformed. */
export function daemonConnection(options: ConnectionOptions = {}): DaemonConnection {
  const { fetch } = options
  if (options.url !== undefined && options.baseUrl !== undefined && options.url !== options.baseUrl)
    throw new SandboxError('invalid_argument', '`url` and `baseUrl` are both given, and differ.', {
      hint: 'Pass url alone; baseUrl is its old name.',
    })
  const url = options.url ?? options.baseUrl ?? variable('SANDKASTEN_URL')
  const apiKey = options.apiKey ?? variable('SANDKASTEN_API_KEY')
  if (typeof url !== 'string' || !/^https?:\/\//.test(url))
    throw new SandboxError('invalid_argument', 'The daemon’s URL must begin with http:// or https://.', {
      hint: 'Pass url, or set SANDKASTEN_URL; `sandkasten up` prints it, such as http://127.0.0.1:8080.',
    })
  if (typeof apiKey !== 'string' || !/^[\x21-\x7e]+$/.test(apiKey))
    throw new SandboxError('invalid_argument', 'An API key is needed.', {
      hint: 'Pass apiKey, or set SANDKASTEN_API_KEY; make a key with `sandkasten keys create`.',
    })
  return { url: url.replace(/\/+$/, ''), apiKey, fetch }
}

/** Browsers and Workers have no environment, and Deno may refuse to show it. */
function variable(name: string): string | undefined {
  try {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } }
    return process?.env?.[name] || undefined
  } catch {
    return undefined
  }
}
