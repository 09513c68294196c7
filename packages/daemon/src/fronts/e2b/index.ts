import { answerAndClose } from '../../http/closing-connections.ts'
import type { FrontFactory } from '../front.ts'
import { Access } from './access.ts'
import { Entry } from './entry.ts'
import { ConnectService } from './envd/connect.ts'
import { DataPlane } from './envd/data-plane.ts'
import { fileRoutes } from './files.ts'
import { Filesystem } from './filesystem/service.ts'
import { Sandboxes } from './lifecycle.ts'
import { Ports } from './ports.ts'
import { Processes } from './processes.ts'
import { refuse } from './refusal.ts'
import { envdPort, type RoutedRequest, routeOf } from './routing.ts'
import { sandboxRoutes } from './sandboxes.ts'
import { snapshotRoutes } from './snapshots.ts'

/**
 * E2B's API at one address. Host and headers tell apart the control plane, the daemon that E2B runs in every sandbox
 * (envd), and the ports of sandboxes:
 *
 *     E2b-Sandbox-Id, or 49983-<id>.<domain>   processes, files
 *     E2b-Sandbox-Port, or <port>-<id>.<domain>   a port of the sandbox
 *     neither                                   sandboxes, snapshots, templates
 */
export const e2bFront: FrontFactory = (app, place) => {
  const access = new Access(place.services)
  const sandboxes = new Sandboxes(place, access)
  const ports = new Ports(place, access, sandboxes)
  const plane = new DataPlane(place, access, sandboxes)
  const entry = new Entry(app, place, access)
  sandboxRoutes(entry, sandboxes)
  snapshotRoutes(entry, sandboxes)
  fileRoutes(app, place, plane)
  const service = new ConnectService(app, place, plane)
  new Processes(place).register(service)
  new Filesystem(place).register(service)
  return {
    refuse,
    take(request: RoutedRequest, response) {
      request.e2bRoute = routeOf(request, sandboxes.domain)
      const route = request.e2bRoute
      if (!route || route.port === envdPort) return false
      void ports.request(route, request, response)
      return true
    },
    upgrade(request, socket, head) {
      const route = routeOf(request, sandboxes.domain)
      if (route && route.port !== envdPort) return void ports.upgrade(route, request, socket, head)
      answerAndClose(socket, { status: 404, title: 'Not Found', body: '' })
    },
  }
}
