import { SandboxError } from '@sandkasten/sdk'
import { lifetimeEnd } from '../../sessions/index.ts'
import { neededPort } from '../shared/request.ts'
import { allow } from '../shared/route.ts'
import { accessHeader, accessToken } from './access-token.ts'
import { type Call, type Entry, egressPort, execdPort } from './entry.ts'
import { keptOf } from './views.ts'

/** The preview listener accepts a token in this header. */
const tokenHeader = 'x-sandkasten-token'
/** The longest lifetime of a token. */
const longestMs = 604_800_000

/**
 * The address of a sandbox's port, without a scheme, as OpenSandbox returns it. The vendor's own servers are at this
 * listener. Other ports are opened at the preview listener: public, or with `secureAccess` for requests that send the
 * returned header.
 */
export function endpointRoutes(entry: Entry): void {
  entry.lifecycle('GET', '/sandboxes/:id/endpoints/:port', 'read', async (call) => {
    const port = neededPort(call)
    const session = await entry.find(call.caller, call.id)
    const expires = expiryOf(call)
    if (port === execdPort || port === egressPort)
      return {
        endpoint: withoutScheme(`${entry.place.url}/sandboxes/${call.id}/port/${port}`),
        headers: {
          [accessHeader]: await accessToken(
            entry.services,
            call.id,
            await entry.services.keys.lastingId(call.caller),
          ),
        },
      }
    // This GET may open a port, so it is in the audit log.
    call.request.changes = true
    allow(call.caller, 'exec')
    const { ports, config } = entry.services
    const { secureAccess } = await keptOf(entry, session)
    const visibility = secureAccess || expires !== undefined ? 'private' : 'public'
    // A signed URL does not change the visibility of an open port.
    await ports.open(call.caller, call.id, expires === undefined ? { port, visibility } : { port })
    // Without a configured domain, names such as 3000-id.localhost resolve only in browsers.
    const named = config.domain === undefined ? undefined : ports.addresses!.url(call.id, port)
    if (visibility === 'public')
      return { endpoint: withoutScheme(named ?? ports.addresses!.pathUrl(call.id, port)) }
    const ends = expires ?? lifetimeEnd(session) ?? Number.POSITIVE_INFINITY
    const expiresInMs = Math.min(Math.max(1000, ends - Date.now()), longestMs)
    const link = await ports.link(call.caller, call.id, String(port), { expiresInMs, path: '' })
    // The token is in the path, because clients append their own path.
    if (expires !== undefined) return { endpoint: withoutScheme(link.pathUrl) }
    return {
      endpoint: withoutScheme(named ?? ports.addresses!.pathUrl(call.id, port)),
      headers: { [tokenHeader]: link.token },
    }
  })
}

/** `expires` is in seconds since 1970. */
function expiryOf({ query }: Call): number | undefined {
  const { expires, use_server_proxy: proxied } = query
  if (expires === undefined) return undefined
  if (proxied === 'true')
    throw new SandboxError('invalid_argument', 'expires cannot be combined with use_server_proxy.')
  const time = typeof expires === 'string' && /^\d{1,13}$/.test(expires) ? Number(expires) * 1000 : 0
  if (time > Date.now() && time - Date.now() <= longestMs) return time
  throw new SandboxError('invalid_argument', 'expires must be within the next seven days.', {
    hint: 'Give it in seconds since 1970.',
  })
}

function withoutScheme(url: string): string {
  return url.replace(/^https?:\/\//, '')
}
