import { SandboxError } from '../../errors.ts'
import { addressAt } from './transport.ts'

export interface OnSandkastenOptions {
  /** The address of the daemon's front for Vercel's SDK. */
  url: string
  /** A key of the daemon. It determines team and project. */
  apiKey: string
}

type Params = { fetch?: typeof globalThis.fetch }

/**
 * Redirects Vercel's own SDK, the module `@vercel/sandbox`, to your daemon. The SDK has no option for the address, but each
 * static method takes credentials and a `fetch`. This function passes its own to all of them, and drops credentials for
 * Vercel that the program passes.
 */
export function onSandkasten<T extends object>(sdk: T, options: OnSandkastenOptions): T {
  const { url, apiKey } = options
  if (!/^https?:\/\//.test(url ?? '') || !apiKey)
    throw new SandboxError('invalid_argument', 'onSandkasten() needs the daemon’s address and an API key.', {
      provider: 'vercel',
      hint: 'Pass a `url` that begins with http:// or https://, and an `apiKey`.',
    })
  const baseUrl = url.replace(/\/+$/, '')
  const redirected = (params: Params = {}) => ({
    ...params,
    token: apiKey,
    teamId: 'sandkasten',
    projectId: 'sandkasten',
    fetch: ((input, init) =>
      (params.fetch ?? globalThis.fetch)(addressAt(baseUrl, String(input)), init)) as typeof fetch,
  })
  const exports = Object.entries(sdk).map(([name, value]) =>
    rooms.has(name) && typeof value === 'function' ? [name, through(value, redirected)] : [name, value],
  )
  return Object.fromEntries(exports) as T
}

/** The exports of the SDK that call the API. */
const rooms = new Set(['Sandbox', 'Snapshot', 'Drive'])

/** Wraps a class so that its static methods get their parameters through `redirected`. */
function through(room: object, redirected: (params?: Params) => object): object {
  return new Proxy(room, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function' || typeof name === 'symbol' || !Object.hasOwn(target, name))
        return value
      return (params?: Params) => value.call(target, redirected(params))
    },
  })
}
