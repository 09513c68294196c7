import { z } from 'zod'
import type { Services } from '../../http/services.ts'
import { incarnationOf } from '../incarnation.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso, isoOrNull } from '../views.ts'

const tag = 'terminals'
const params = z.object({ id: z.string(), terminal_id: z.string() })
const size = z.int().min(1).max(1000)

const terminal = z
  .object({
    terminal_id: z.string(),
    session_id: z.string(),
    status: z.enum(['running', 'done', 'lost']),
    incarnation: z.int(),
    created_at: z.iso.datetime(),
    ended_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'Terminal' })

export function terminalRoutes({ sessions }: Services): Route[] {
  return [
    route({
      id: 'openTerminal',
      method: 'POST',
      path: '/v1/sessions/{id}/terminals',
      access: 'exec',
      tag,
      summary:
        'Open a terminal that runs a login shell or a program. Attach to it with a WebSocket at …/terminals/{terminal_id}/ws.',
      params: schemas.sessionParams,
      body: z.strictObject({
        terminal_id: schemas.execId.optional().describe('Makes retries safe.'),
        cmd: schemas.program.optional(),
        args: schemas.args.optional(),
        env: schemas.env.optional(),
        cwd: schemas.filePath.optional(),
        cols: size.optional(),
        rows: size.optional(),
      }),
      largeBody: true,
      answer: { status: 201, description: 'The terminal.', schema: terminal },
      async handle({ caller, params, body, request }) {
        const { terminal_id: terminalId, ...options } = body
        return view(
          await sessions.terminals.open(
            caller,
            params.id,
            { terminalId, ...options },
            incarnationOf(request),
          ),
        )
      },
    }),
    route({
      id: 'listTerminals',
      method: 'GET',
      path: '/v1/sessions/{id}/terminals',
      access: 'read',
      tag,
      summary: 'List the session’s terminals, newest first.',
      params: schemas.sessionParams,
      answer: { description: 'Terminals.', schema: z.object({ terminals: z.array(terminal) }) },
      handle: async ({ caller, params }) => ({
        terminals: (await sessions.terminals.list(caller, params.id)).map(view),
      }),
    }),
    route({
      id: 'getTerminal',
      method: 'GET',
      path: '/v1/sessions/{id}/terminals/{terminal_id}',
      access: 'read',
      tag,
      summary: 'Get a terminal.',
      params,
      answer: { description: 'The terminal.', schema: terminal },
      handle: async ({ caller, params }) =>
        view(await sessions.terminals.find(caller, params.id, params.terminal_id)),
    }),
    route({
      id: 'resizeTerminal',
      method: 'POST',
      path: '/v1/sessions/{id}/terminals/{terminal_id}/resize',
      access: 'exec',
      tag,
      summary: 'Resize a terminal.',
      params,
      body: z.strictObject({ cols: size, rows: size }),
      answer: { description: 'Done.', schema: z.object({ ok: z.literal(true) }) },
      async handle({ caller, params, body, request }) {
        await sessions.terminals.attach(
          caller,
          params.id,
          params.terminal_id,
          (terminal) => terminal.resize(body),
          incarnationOf(request),
        )
        return { ok: true }
      },
    }),
    route({
      id: 'killTerminal',
      method: 'DELETE',
      path: '/v1/sessions/{id}/terminals/{terminal_id}',
      access: 'exec',
      tag,
      summary: 'Close a terminal and end its processes.',
      params,
      answer: {
        description: 'False when the terminal had already ended.',
        schema: z.object({ killed: z.boolean() }),
      },
      async handle({ caller, params, request }) {
        const killed = await sessions.terminals.attach(
          caller,
          params.id,
          params.terminal_id,
          (terminal) => terminal.kill('SIGKILL'),
          incarnationOf(request),
        )
        await sessions.terminals.ended(params.id, params.terminal_id, { killed: true })
        return { killed }
      },
    }),
  ]
}

type Row = Awaited<ReturnType<Services['sessions']['terminals']['find']>>

function view(row: Omit<Row, 'events'>): z.infer<typeof terminal> {
  return {
    terminal_id: row.exec_id,
    session_id: row.session_id,
    status: row.status,
    incarnation: row.incarnation,
    created_at: iso(row.created_at),
    ended_at: isoOrNull(row.ended_at),
  }
}
