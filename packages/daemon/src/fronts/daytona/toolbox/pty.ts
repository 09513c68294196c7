import { SandboxError, type SandboxTerminal } from '@sandkasten/sdk'
import type { WebSocket } from 'ws'
import { z } from 'zod'
import { atItsPace, drained } from '../../../http/websockets.ts'
import type { Caller } from '../../../keys/index.ts'
import type { FrontPlace } from '../../front.ts'
import { wholeOutput } from '../../shared/output.ts'
import { parsed } from '../../shared/request.ts'
import { type Call, type Entry, found } from '../entry.ts'

const size = z.coerce.number().int().min(1).max(1000)
const createBody = z.object({
  id: z.string().min(1).max(100),
  cols: size.optional(),
  rows: size.optional(),
  cwd: z.string().optional(),
  envs: z.record(z.string(), z.string()).optional(),
  lazyStart: z.boolean().optional(),
})
const sizeBody = z.object({ cols: size, rows: size })

export type PtyRequest = z.infer<typeof createBody>
export { createBody as ptySchema }

/** The vendor's facts about a terminal, without its environment. */
interface PtyRecord {
  readonly sandboxId: string
  readonly id: string
  readonly cols: number
  readonly rows: number
  readonly cwd: string
  readonly createdAt: string
}

const kind = 'pty'

/** Terminals of the toolbox. The client chooses their ids. */
export class Ptys {
  readonly #place: FrontPlace

  constructor(place: FrontPlace) {
    this.#place = place
  }

  register(entry: Entry): void {
    const at = '/toolbox/:id/process/pty'
    entry.add(
      'POST',
      at,
      'exec',
      async (call) => {
        const body = parsed(createBody, call.body)
        await this.open(call.caller, (await found(call)).id, body)
        return { sessionId: body.id }
      },
      { status: 201 },
    )
    entry.add('GET', at, 'read', async (call) => ({ sessions: await this.#list(call) }))
    entry.add('GET', `${at}/:pid`, 'read', async (call) => {
      const one = (await this.#list(call)).find(({ id }) => id === call.params.pid)
      if (one) return one
      throw noPty()
    })
    entry.add('DELETE', `${at}/:pid`, 'exec', async (call) => {
      const { id } = await found(call)
      const { terminals } = this.#place.services.sessions
      await this.#attach(call.caller, id, call.params.pid!, (terminal) => terminal.kill('SIGKILL'))
      await terminals.ended(id, call.params.pid!, { killed: true })
      await this.#place.records.delete(call.caller.projectId, kind, `${id}/${call.params.pid}`)
      return { message: 'PTY session deleted' }
    })
    entry.add('POST', `${at}/:pid/resize`, 'exec', async (call) => {
      const { cols, rows } = parsed(sizeBody, call.body)
      const { id } = await found(call)
      await this.#attach(call.caller, id, call.params.pid!, (terminal) => terminal.resize({ cols, rows }))
      const key = `${id}/${call.params.pid}`
      const record = await this.#place.records.get<PtyRecord>(call.caller.projectId, kind, key)
      if (!record) throw noPty()
      const changed = { ...record, cols, rows }
      await this.#place.records.put(call.caller.projectId, kind, key, changed, id)
      return view(changed, true)
    })
  }

  async open(caller: Caller, sandboxId: string, request: PtyRequest): Promise<void> {
    const { terminals } = this.#place.services.sessions
    const { cols = 80, rows = 24, cwd, envs } = request
    const known = await this.#place.records.get(caller.projectId, kind, `${sandboxId}/${request.id}`)
    if (known && (await this.#runs(caller, sandboxId, request.id)))
      throw new SandboxError('conflict', `PTY session with ID ${request.id} already exists`)
    await terminals.open(caller, sandboxId, {
      terminalId: request.id,
      cols,
      rows,
      cwd: cwd || undefined,
      env: { TERM: 'xterm-256color', ...envs },
    })
    const record: PtyRecord = {
      sandboxId,
      id: request.id,
      cols,
      rows,
      cwd: cwd ?? '',
      createdAt: new Date().toISOString(),
    }
    await this.#place.records.put(caller.projectId, kind, `${sandboxId}/${request.id}`, record, sandboxId)
  }

  /** Sends output as binary messages and control messages as text. Messages of the client are input. */
  async connect(
    caller: Caller,
    sandboxId: string,
    id: string,
  ): Promise<(socket: WebSocket, leaving: AbortSignal) => Promise<void>> {
    const { terminals } = this.#place.services.sessions
    const terminal = await this.#attach(caller, sandboxId, id, async (attached) => attached)
    return async (socket, leaving) => {
      socket.send(JSON.stringify({ type: 'control', status: 'connected' }))
      const input = atItsPace(socket)
      socket.on('message', (data) => {
        terminals.touch(sandboxId)
        input((data as Buffer).length, terminal.write(data as Buffer))
      })
      // If output was dropped, a new client gets the part that is left.
      const output = (after: number) => terminal.output({ after, signal: leaving })
      for await (const event of wholeOutput(output, leaving)) {
        if (event.type !== 'exit') {
          socket.send(event.data, { binary: true })
          await drained(socket, leaving)
          continue
        }
        const exit = { exitCode: event.exitCode, exitReason: event.signal }
        socket.send(JSON.stringify({ type: 'control', status: 'exited', ...exit }))
        socket.close(1000, JSON.stringify(exit).slice(0, 120))
        await terminals.ended(sandboxId, id, exit)
        return
      }
      throw new SandboxError('interrupted', 'The terminal has ended with its sandbox.')
    }
  }

  async #list(call: Call) {
    const session = await found(call)
    const records = await this.#place.records.list<PtyRecord>(call.caller.projectId, kind)
    const rows = await this.#place.services.sessions.terminals.list(call.caller, session.id)
    const running = new Set(
      rows
        .filter(({ status, incarnation }) => status === 'running' && incarnation === session.incarnation)
        .map(({ exec_id: id }) => id),
    )
    return records
      .filter(({ data }) => data.sandboxId === session.id)
      .map(({ data }) => view(data, running.has(data.id)))
  }

  async #runs(caller: Caller, sandboxId: string, id: string): Promise<boolean> {
    const { sessions } = this.#place.services
    const { incarnation } = await sessions.get(caller, sandboxId)
    const rows = await sessions.terminals.list(caller, sandboxId)
    return rows.some(
      (row) => row.exec_id === id && row.status === 'running' && row.incarnation === incarnation,
    )
  }

  async #attach<T>(
    caller: Caller,
    sandboxId: string,
    id: string,
    work: (terminal: SandboxTerminal) => Promise<T>,
  ): Promise<T> {
    try {
      return await this.#place.services.sessions.terminals.attach(caller, sandboxId, id, work, {
        wake: false,
      })
    } catch (error) {
      throw SandboxError.is(error, 'not_found') ? noPty() : error
    }
  }
}

function view(record: PtyRecord, active: boolean) {
  const { id, cols, rows, cwd, createdAt } = record
  return { id, cols, rows, cwd, createdAt, envs: {}, active, lazyStart: false }
}

function noPty(): SandboxError {
  return new SandboxError('not_found', 'PTY session not found', {
    details: { daytonaCode: 'PROCESS_NOT_FOUND' },
  })
}
