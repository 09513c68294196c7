import { z } from 'zod'
import { closeShell, shellOf } from '../../sessions/index.ts'
import { incarnationOf } from '../incarnation.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import type { Services } from '../services.ts'

const tag = 'shells'
const shell = z.object({ name: z.string(), cwd: z.string() }).meta({ id: 'Shell' })

export function shellRoutes({ sessions }: Services): Route[] {
  return [
    route({
      id: 'openShell',
      method: 'POST',
      path: '/v1/sessions/{id}/shells',
      access: 'exec',
      tag,
      summary:
        'Open a shell beside `main`. One with this name that is open is found again. `exec` opens them by itself too.',
      params: schemas.sessionParams,
      body: z.strictObject({
        name: schemas.name,
        cwd: schemas.filePath.optional(),
        env: schemas.env.optional(),
        login: z
          .boolean()
          .optional()
          .describe('Read the profile of the sandbox’s user first. Default: defaults.login_shell.'),
      }),
      answer: { status: 201, description: 'The shell.', schema: shell },
      async handle({ caller, params, body, request }) {
        const { name, ...options } = body
        return sessions.use.use(
          caller,
          params.id,
          async ({ open }) => {
            const shell = await shellOf(open, name, options)
            return { name, cwd: shell.cwd }
          },
          incarnationOf(request),
        )
      },
    }),
    route({
      id: 'listShells',
      method: 'GET',
      path: '/v1/sessions/{id}/shells',
      access: 'read',
      tag,
      summary: 'Shells that were used since the daemon was started.',
      params: schemas.sessionParams,
      answer: { description: 'Shells.', schema: z.object({ shells: z.array(shell) }) },
      async handle({ caller, params }) {
        const session = await sessions.use.findHere(caller, params.id)
        const open = sessions.context.live.opened(session.id, session.incarnation)
        const shells = await Promise.all(
          [...(open?.shells.values() ?? [])].map((shell) => shell.catch(() => undefined)),
        )
        return {
          shells: shells.filter((shell) => shell !== undefined).map(({ name, cwd }) => ({ name, cwd })),
        }
      },
    }),
    route({
      id: 'closeShell',
      method: 'DELETE',
      path: '/v1/sessions/{id}/shells/{name}',
      access: 'exec',
      tag,
      summary: 'End a shell and what runs in it. `main` is opened anew by the next exec.',
      params: z.object({ id: z.string(), name: z.string() }),
      answer: { description: 'False when it was closed already.', schema: z.object({ closed: z.boolean() }) },
      handle: ({ caller, params, request }) =>
        sessions.use.use(
          caller,
          params.id,
          async ({ open }) => ({ closed: await closeShell(open, params.name) }),
          incarnationOf(request),
        ),
    }),
  ]
}
