import { SandboxError } from '../errors.ts'
import { checkKnown } from '../shared/known-options.ts'

/** Which daemon to use. Missing options come from the environment. */
export interface ConnectionOptions {
  /** The daemon's URL, such as `http://127.0.0.1:8080`. Default: `SANDKASTEN_URL`. */
  url?: string | undefined
  /** @deprecated The old name of `url`. */
  baseUrl?: string | undefined
  /** Default: `SANDKASTEN_API_KEY`. */
  apiKey?: string | undefined
  /** Replaces the global `fetch`. */
  fetch?: typeof globalThis.fetch
}

export interface DaemonConnection {
  readonly url: string
  readonly apiKey: string
  readonly fetch?: typeof globalThis.fetch
}

/** Options take precedence over the environment. Throws `invalid_argument` for missing or malformed values. */
export function daemonConnection(options: ConnectionOptions = {}): DaemonConnection {
  checkKnown(options, ['url', 'baseUrl', 'apiKey', 'fetch'], 'SandboxClient')
  const { fetch } = options
  if (options.url !== undefined && options.baseUrl !== undefined && options.url !== options.baseUrl)
    throw new SandboxError('invalid_argument', '`url` and `baseUrl` are both given and differ.', {
      hint: 'Pass url alone; baseUrl is its old name.',
    })
  const url = options.url ?? options.baseUrl ?? variable('SANDKASTEN_URL')
  const apiKey = options.apiKey ?? variable('SANDKASTEN_API_KEY')
  if (typeof url !== 'string' || !/^https?:\/\//.test(url))
    throw new SandboxError('invalid_argument', 'The daemon’s URL must begin with http:// or https://.', {
      hint: 'Pass url, or set SANDKASTEN_URL; `sandkasten up` prints it, such as http://127.0.0.1:8080.',
    })
  if (typeof apiKey !== 'string' || !/^[\x21-\x7e]+$/.test(apiKey))
    throw new SandboxError('invalid_argument', 'The API key is missing or malformed.', {
      hint: 'Pass apiKey, or set SANDKASTEN_API_KEY; create a key with `sandkasten keys create`.',
    })
  return { url: url.replace(/\/+$/, ''), apiKey, fetch }
}

/** Browsers and Workers have no environment, and Deno may deny access to it. */
function variable(name: string): string | undefined {
  try {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } }
    return process?.env?.[name] || undefined
  } catch {
    return undefined
  }
}
