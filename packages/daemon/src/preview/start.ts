import type { KeyRing } from '../keys/index.ts'
import { Addresses, Connections, Links, linkSecret, PortService, Visits } from '../ports/index.ts'
import type { Context, SessionService } from '../sessions/index.ts'
import { PreviewServer } from './server.ts'

export interface Previews {
  readonly ports: PortService
  readonly visits: Visits
  readonly connections: Connections
  /** The URL of the listener. Undefined when previews are off. */
  readonly url?: string
  /** Registers another listener of this daemon, which previews must not reach. */
  own(url: string): void
  close(): Promise<void>
}

/** Creates the services for ports, and starts the preview listener if it is configured. */
export async function startPreviews(
  context: Context,
  sessions: SessionService,
  keys: KeyRing,
  patience: { headMs: number; bodyMs: number },
): Promise<Previews> {
  const { config, metrics, log } = context
  const links = new Links(await linkSecret(config.data_dir))
  const connections = new Connections()
  const visits = new Visits(context, sessions, links)
  const ports = new PortService(context, sessions, links, connections)
  const own = (url: string) => void visits.own.add(Number(new URL(url).port))
  if (!config.preview_listen) return { ports, visits, connections, own, close: async () => {} }
  metrics.onRead(() => metrics.set('sandkasten_preview_connections', {}, connections.size))
  const server = new PreviewServer({
    visits,
    connections,
    keys,
    metrics,
    log,
    behindProxy: config.behind_tls,
    headMs: patience.headMs,
    bodyIdleMs: patience.bodyMs,
  })
  const url = await server.listen(config.preview_listen)
  own(url)
  ports.addresses = new Addresses(config, url)
  server.serve(ports.addresses)
  log.info({ url, domain: ports.addresses.domain }, 'previews')
  return { ports, visits, connections, url, own, close: () => server.close() }
}
