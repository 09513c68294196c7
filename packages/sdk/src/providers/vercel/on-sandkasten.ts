import { SandboxError } from '../../errors.ts'
import { addressAt } from './transport.ts'

export interface OnSandkastenOptions {
  /** The address of the daemon's front for Vercel's SDK. */
  url: string
  /** A key of the daemon. Team and project are whatever it belongs to. */
  apiKey: string
}

type Params = { fetch?: typeof globalThis.fetch }

/**
 * Vercel's own SDK, the module `@vercel/sandbox` as it is, asking a daemon of yours. It has no option for another address, but each of its calls
 * that makes or finds something takes credentials and a `fetch`: here these are given to all of them. Credentials that the program itself
 * gives are those of Vercel, and are left out.
 */
export function onSandkasten<T extends object>(sdk: T, options: OnSandkastenOptions): T {
  const { url, apiKey } = options
  if (!/^https?:\/\//.test(url ?? '') || !apiKey)
    throw new SandboxError('invalid_argument', 'The daemon’s address and a key of it are needed.', {
      provider: 'vercel',
      hint: 'Give onSandkasten() a `url` that begins with http:// or https://, and an `apiKey`.',
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

/** What of the SDK asks the API. */
const rooms = new Set(['Sandbox', 'Snapshot', 'Drive'])

/** The class itself, but that its static methods are called with what `redirected` makes of their parameters. */
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
