import { z } from 'zod'
import type { Services } from '../../http/services.ts'
import { closeShell, type Open, shellOf, shellQueue } from '../../sessions/index.ts'
import { incarnationOf } from '../incarnation.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso } from '../views.ts'

const tag = 'shells'
const shell = z
  .object({
    name: z.string(),
    cwd: z.string(),
    running: z
      .object({
        exec_id: z.string().nullable().describe('Null for a command without an id.'),
        command: z.string().describe('The first 1000 characters of the command.'),
        started_at: z.iso.datetime(),
      })
      .nullable()
      .describe('The command that runs in the shell now.'),
    waiting: z.int().describe('The number of queued commands. A shell runs one command at a time.'),
  })
  .meta({ id: 'Shell' })

export function shellRoutes({ sessions }: Services): Route[] {
  return [
    route({
      id: 'openShell',
      method: 'POST',
      path: '/v1/sessions/{id}/shells',
      access: 'exec',
      tag,
      summary:
        'Open a shell beside `main`, or return the open shell with this name. `exec` also opens shells by itself.',
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
            return shellView(open, name, shell.cwd)
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
      summary: 'List shells that were used since the daemon started.',
      params: schemas.sessionParams,
      answer: { description: 'Shells.', schema: z.object({ shells: z.array(shell) }) },
      async handle({ caller, params }) {
        const session = await sessions.use.findHere(caller, params.id)
        const open = sessions.opened(session)
        const shells = await Promise.all(
          [...(open?.shells.values() ?? [])].map((shell) => shell.catch(() => undefined)),
        )
        return {
          shells: shells
            .filter((shell) => shell !== undefined)
            .map(({ name, cwd }) => shellView(open!, name, cwd)),
        }
      },
    }),
    route({
      id: 'closeShell',
      method: 'DELETE',
      path: '/v1/sessions/{id}/shells/{name}',
      access: 'exec',
      tag,
      summary: 'Close a shell and end its processes. The next exec opens `main` again.',
      params: z.object({ id: z.string(), name: z.string() }),
      answer: {
        description: 'False when the shell was already closed.',
        schema: z.object({ closed: z.boolean() }),
      },
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

function shellView(open: Open, name: string, cwd: string): z.infer<typeof shell> {
  const { running, waiting } = shellQueue(open, name)
  return {
    name,
    cwd,
    running: running
      ? { exec_id: running.execId, command: running.command, started_at: iso(running.startedAt) }
      : null,
    waiting,
  }
}
