import { SandboxClient } from '../../client/index.ts'
import { DriverProvider } from '../../core/provider.ts'
import { SandboxError } from '../../errors.ts'
import type { DaemonCapabilities } from './capabilities.ts'
import { DaemonDriver } from './driver.ts'

export interface DaemonProviderOptions {
  /** Where the daemon is. Default: `SANDKASTEN_URL`. */
  url?: string
  /** Default: `SANDKASTEN_API_KEY`. */
  apiKey?: string
  /** Instead of the global one. */
  fetch?: typeof globalThis.fetch
}

/** The sandboxes of a daemon (`sandkasten up`), on this machine or another, over HTTP. A sandbox is a session there. */
export class DaemonProvider extends DriverProvider<DaemonCapabilities> {
  constructor(options: DaemonProviderOptions = {}) {
    const { SANDKASTEN_URL, SANDKASTEN_API_KEY } = environment()
    const client = new SandboxClient({
      baseUrl: needed(options.url ?? SANDKASTEN_URL, 'url', 'SANDKASTEN_URL'),
      apiKey: needed(options.apiKey ?? SANDKASTEN_API_KEY, 'apiKey', 'SANDKASTEN_API_KEY'),
      ...(options.fetch ? { fetch: options.fetch } : {}),
    })
    super(new DaemonDriver(client))
  }
}

/** Where there is no Node there is none. */
function environment(): Record<string, string | undefined> {
  return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {}
}

function needed(value: string | undefined, option: string, variable: string): string {
  if (value) return value
  throw new SandboxError('invalid_argument', `The daemon provider needs \`${option}\`.`, {
    provider: 'daemon',
    hint: `Pass ${option}, or set ${variable}; \`sandkasten up\` prints both.`,
  })
}
