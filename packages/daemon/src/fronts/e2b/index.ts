import type { FastifyInstance } from 'fastify'
import { answerAndClose } from '../../http/closing.ts'
import type { Front, FrontPlace } from '../front.ts'
import { Access } from './access.ts'
import { ConnectService } from './connect.ts'
import { controlRoutes } from './control.ts'
import { DataPlane } from './data-plane.ts'
import { refuse } from './errors.ts'
import { fileRoutes } from './files.ts'
import { Filesystem } from './filesystem.ts'
import { Ports } from './ports.ts'
import { Processes } from './processes.ts'
import { envdPort, type Routed, routeOf } from './routing.ts'
import { Sandboxes } from './sandboxes.ts'

/**
 * E2B's wire: control plane, the daemon that it has in every sandbox, and the ports of sandboxes, all at one address, told apart by host
 * and headers.
 *
 *     E2b-Sandbox-Id, or 49983-<id>.<domain>   processes, files
 *     E2b-Sandbox-Port, or <port>-<id>.<domain>   what listens inside
 *     neither                                   sandboxes, snapshots, templates
 */
export const e2bFront: Front = {
  name: 'e2b',
  register(app: FastifyInstance, place: FrontPlace) {
    const { access, sandboxes } = partsOf(place)
    const plane = new DataPlane(place, access, sandboxes)
    controlRoutes(app, place, access, sandboxes)
    fileRoutes(app, place, plane)
    const service = new ConnectService(app, place, plane)
    new Processes(place).register(service)
    new Filesystem(place).register(service)
  },
  refuse,
  take(request, response, place) {
    const { routed, ports } = portOf(request, place)
    if (!routed) return false
    void ports.request(routed, request, response)
    return true
  },
  upgrade(request, socket, head, place) {
    const { routed, ports } = portOf(request, place)
    if (routed) return void ports.upgrade(routed, request, socket, head)
    answerAndClose(socket, { status: 404, title: 'Not Found', body: '' })
  },
}

interface Parts {
  readonly access: Access
  readonly sandboxes: Sandboxes
  readonly ports: Ports
}

/** One set for each listener. */
const parts = new WeakMap<FrontPlace, Parts>()

function partsOf(place: FrontPlace): Parts {
  const known = parts.get(place)
  if (known) return known
  const access = new Access(place.services)
  const sandboxes = new Sandboxes(place, access)
  const made = { access, sandboxes, ports: new Ports(place, access, sandboxes) }
  parts.set(place, made)
  return made
}

/** The port that a request is for, unless that is answered by the routes. */
function portOf(
  request: Parameters<NonNullable<Front['take']>>[0],
  place: FrontPlace,
): { routed?: Routed; ports: Ports } {
  const { ports, sandboxes } = partsOf(place)
  const routed = routeOf(request, sandboxes.domain)
  return routed && routed.port !== envdPort ? { routed, ports } : { ports }
}
