import { z } from 'zod'
import type { Services } from '../../http/services.ts'
import type { PortState } from '../../ports/index.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso } from '../views.ts'

const tag = 'ports'
const params = z.object({ id: z.string(), port: z.string() })
const visibility = z.enum(['private', 'token', 'public'])
const most = 604_800

const openPort = z
  .object({
    session_id: z.string(),
    port: z.int(),
    visibility: visibility.nullable().describe('The visibility; null when the port is closed.'),
    listening: z
      .boolean()
      .nullable()
      .describe('Whether a program listens on the port now; null when unknown.'),
    wake_on_visit: z.boolean(),
    url: z
      .string()
      .nullable()
      .describe(
        'A URL with its own host name, and so its own origin. Null when the daemon has no preview domain.',
      ),
    path_url: z
      .string()
      .nullable()
      .describe('A URL with the port in its path, for clients that cannot resolve the host name.'),
    opened_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'Port' })

export function portRoutes({ ports }: Services): Route[] {
  const view = (id: string, { port, row, listening }: PortState): z.infer<typeof openPort> => ({
    session_id: id,
    port,
    visibility: row?.visibility ?? null,
    listening: listening ?? null,
    wake_on_visit: row?.wake === 1,
    url: (row && ports.addresses?.url(id, port)) ?? null,
    path_url: (row && ports.addresses?.pathUrl(id, port)) ?? null,
    opened_at: row ? iso(row.created_at) : null,
  })
  return [
    route({
      id: 'listPorts',
      method: 'GET',
      path: '/v1/sessions/{id}/ports',
      access: 'read',
      tag,
      summary: 'List open ports, and ports on which a program in the sandbox listens.',
      params: schemas.sessionParams,
      answer: { description: 'Ports.', schema: z.object({ ports: z.array(openPort) }) },
      handle: async ({ caller, params }) => ({
        ports: (await ports.list(caller, params.id)).map((state) => view(params.id, state)),
      }),
    }),
    route({
      id: 'openPort',
      method: 'POST',
      path: '/v1/sessions/{id}/ports',
      access: 'exec',
      tag,
      summary:
        'Open a port, or change its access. Omitted settings keep their values; a new port is private.',
      params: schemas.sessionParams,
      body: z.strictObject({
        port: z.int().min(1).max(65_535),
        visibility: visibility
          .optional()
          .describe(
            '`private`: a key of the project or a link; `token`: also the port’s token; `public`: no credentials.',
          ),
        wake_on_visit: z.boolean().optional().describe('A visit starts a stopped session.'),
        rotate: z.boolean().optional().describe('Create a new token, and end all existing links.'),
      }),
      answer: {
        status: 201,
        description: 'The port. `token` is set only when the token is new.',
        schema: openPort.extend({ token: z.string().optional() }).meta({ id: 'OpenedPort' }),
      },
      async handle({ caller, params, body }) {
        const { row, token } = await ports.open(caller, params.id, {
          port: body.port,
          visibility: body.visibility,
          wakeOnVisit: body.wake_on_visit,
          rotate: body.rotate,
        })
        return { ...view(params.id, { port: row.port, row }), token }
      },
    }),
    route({
      id: 'getPort',
      method: 'GET',
      path: '/v1/sessions/{id}/ports/{port}',
      access: 'read',
      tag,
      summary: 'Get an open port.',
      params,
      answer: { description: 'The port.', schema: openPort },
      handle: async ({ caller, params }) => view(params.id, await ports.get(caller, params.id, params.port)),
    }),
    route({
      id: 'closePort',
      method: 'DELETE',
      path: '/v1/sessions/{id}/ports/{port}',
      access: 'exec',
      tag,
      summary: 'Close a port. Ends its connections and its links.',
      params,
      answer: {
        description: 'False when the port was already closed.',
        schema: z.object({ closed: z.boolean() }),
      },
      handle: async ({ caller, params }) => ({ closed: await ports.close(caller, params.id, params.port) }),
    }),
    route({
      id: 'linkPort',
      method: 'POST',
      path: '/v1/sessions/{id}/ports/{port}/links',
      access: 'exec',
      tag,
      summary: 'Create a signed link to an open port. The link needs no key and expires.',
      params,
      body: z.strictObject({
        expires_in_seconds: z.number().positive().max(most).optional().describe('Default: an hour.'),
        path: z
          .string()
          .max(4096)
          .regex(/^\/[!-~]*$/, 'must begin with / and be encoded as in a URL')
          .optional(),
      }),
      answer: {
        status: 201,
        description: 'The link.',
        schema: z
          .object({
            url: z.string().nullable(),
            path_url: z.string(),
            token: z.string().describe('The value of the header X-Sandkasten-Token.'),
            expires_at: z.iso.datetime(),
          })
          .meta({ id: 'PortLink' }),
      },
      async handle({ caller, params, body }) {
        const link = await ports.link(caller, params.id, params.port, {
          expiresInMs: (body.expires_in_seconds ?? 3600) * 1000,
          path: body.path ?? '/',
        })
        const { url, pathUrl, token, expiresAt } = link
        return { url: url ?? null, path_url: pathUrl, token, expires_at: iso(expiresAt) }
      },
    }),
  ]
}
