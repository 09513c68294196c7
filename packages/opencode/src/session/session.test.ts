import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isMessageId, newMessageId, textPartId } from './message-id.ts'
import { type OpencodeSession, openSession } from './session.ts'
import { SessionView } from './view.ts'

describe('ids of messages', () => {
  it('have opencode’s format, and ascend also when the clock goes back', () => {
    const ids = [newMessageId(), newMessageId(), newMessageId(0), newMessageId()]
    expect(ids.every(isMessageId)).toBe(true)
    expect([...ids].sort()).toEqual(ids)
    expect(textPartId(ids[0]!)).toBe(ids[0]!.replace('msg_', 'prt_'))
    for (const id of ['', 'msg_', `${ids[0]}/..`, ids[0]!.toUpperCase()]) expect(isMessageId(id)).toBe(false)
  })
})

describe('a view of a session', () => {
  const info = (id: string, more = {}) => ({
    id,
    sessionID: 'ses_1',
    role: 'assistant',
    time: { created: 1 },
    ...more,
  })
  const part = (text: string, end?: number) => ({
    id: 'prt_1',
    messageID: 'msg_2',
    sessionID: 'ses_1',
    type: 'text',
    text,
    time: { start: 1, ...(end && { end }) },
  })
  const event = (type: string, properties: object) => ({
    type,
    properties: { sessionID: 'ses_1', ...properties },
  })
  const delta = (text: string) =>
    event('message.part.delta', { messageID: 'msg_2', partID: 'prt_1', field: 'text', delta: text })
  const empty = { status: 'busy', permissions: [], questions: [], children: [] } as const
  const user = { id: 'msg_1', role: 'user', createdAt: 1, isSummary: false, parts: [] } as const
  const text = (view: SessionView) =>
    view.state.messages[1]?.parts.map((one) => ('text' in one ? one.text : ''))
  function begun(): SessionView {
    const view = new SessionView('ses_1', 'msg_1')
    view.reset({ ...empty, messages: [user] })
    view.apply(event('message.updated', { info: info('msg_2') }))
    view.apply(event('message.part.updated', { part: part('') }))
    return view
  }
  const saved = (view: SessionView) => view.state.messages.map((one) => ({ ...one }))

  it('collects pieces of a text', () => {
    const view = begun()
    for (const piece of ['one ', 'two']) expect(view.apply(delta(piece))).toBe(true)
    expect(text(view)).toEqual(['one two'])
    view.apply(event('message.part.updated', { part: part('one two three', 2) }))
    expect(text(view)).toEqual(['one two three'])
    expect(view.apply(delta('late'))).toBe(false)
  })

  it('never shows a text with a hole after a reconnect', () => {
    const view = begun()
    view.apply(delta('one two'))
    const base = saved(begun())
    // The server has saved the empty text only, and pieces were missed.
    view.reset({ ...empty, messages: base })
    expect(text(view)).toEqual(['one two'])
    view.apply(delta(' four'))
    expect(text(view)).toEqual(['one two'])
    view.apply(event('message.part.updated', { part: part('one two three four', 2) }))
    expect(text(view)).toEqual(['one two three four'])
  })

  it('ignores other sessions, and knows those that this one has started', () => {
    const view = begun()
    const question = (sessionID: string) => ({
      type: 'question.asked',
      properties: { id: `que_${sessionID}`, sessionID, questions: [] },
    })
    view.apply(question('ses_9'))
    view.apply({ type: 'session.created', properties: { info: { id: 'ses_2', parentID: 'ses_1' } } })
    view.apply(question('ses_2'))
    view.apply(question('ses_1'))
    expect(view.state.questions.map(({ sessionId }) => sessionId)).toEqual(['ses_2', 'ses_1'])
    view.apply({ type: 'question.replied', properties: { sessionID: 'ses_2', requestID: 'que_ses_2' } })
    expect(view.state.questions).toHaveLength(1)
  })

  it('has a limit for everything together', () => {
    const view = begun()
    const flood = () => {
      for (let at = 0; at < 100; at += 1)
        view.apply(
          event('message.part.updated', { part: { ...part('x'.repeat(1_000_000), 2), id: `prt_${at}` } }),
        )
    }
    expect(flood).toThrow('too large')
  })

  it('survives values of any type', () => {
    const view = begun()
    const values = [null, 1, 'x', [], {}, { id: 1 }, { id: '../..' }, { id: 'msg_1', role: 'user' }]
    const types = [
      'message.updated',
      'message.part.updated',
      'message.part.delta',
      'session.status',
      'session.error',
      'question.asked',
      'permission.asked',
      'session.updated',
      'session.created',
      'message.removed',
      'x',
      1,
      null,
    ]
    for (const type of types)
      for (const value of values) {
        view.apply({ type, properties: value })
        view.apply({
          type,
          properties: { sessionID: 'ses_1', info: value, part: value, status: value, error: value },
        })
      }
    expect(view.state.messages[0]?.id).toBe('msg_1')
  })
})

describe('a hostile server', () => {
  let server: Server
  let events: (response: ServerResponse) => void
  let other: (request: IncomingMessage, response: ServerResponse) => void
  let session: OpencodeSession
  const from = newMessageId()
  beforeEach(async () => {
    events = () => {}
    other = (request, response) => {
      const { pathname } = new URL(request.url!, 'http://x')
      if (pathname.endsWith('/message'))
        response.end(JSON.stringify([{ info: { id: from, role: 'user', time: {} }, parts: [] }]))
      else response.end(pathname === '/session' || pathname === '/session/ses_1' ? '{"id":"ses_1"}' : '[]')
    }
    server = createServer((request, response) => {
      if (new URL(request.url!, 'http://x').pathname !== '/event') return other(request, response)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {"type":"server.connected","properties":{}}\n\n')
      events(response)
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as { port: number }
    session = await openSession({ url: `http://127.0.0.1:${port}`, headers: {}, directory: '/x' })
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })
  const follow = async (options: object) => {
    let states = 0
    for await (const _ of session.follow(from, options)) states += 1
    return states
  }

  it('that goes silent is found, and left in bounded time', async () => {
    let connections = 0
    events = () => {
      connections += 1
    }
    const began = Date.now()
    const stop = AbortSignal.timeout(3_000)
    await expect(follow({ silentMs: 300, lostMs: 60_000, signal: stop })).rejects.toMatchObject({
      code: 'aborted',
    })
    expect(connections).toBeGreaterThan(2)
    server.closeAllConnections()
    server.close()
    await expect(follow({ silentMs: 300, lostMs: 1_000 })).rejects.toMatchObject({ code: 'unavailable' })
    expect(Date.now() - began).toBeLessThan(30_000)
  })

  it('that sends an endless event is left', async () => {
    events = (response) => {
      const chunk = 'x'.repeat(1_000_000)
      const write = () => void (!response.destroyed && response.write(chunk, () => setImmediate(write)))
      response.write('data: ')
      write()
    }
    await expect(follow({})).rejects.toMatchObject({ code: 'too_large' })
  }, 60_000)

  it('cannot name a session, a cursor or a model that leads elsewhere', async () => {
    other = (_, response) => response.end('{"id":"../../x"}')
    await expect(openSession(session.server)).rejects.toMatchObject({ code: 'provider_error' })
    await expect(openSession(session.server, { sessionId: '../x' })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await expect(session.replyPermission('../../x', 'once')).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await expect(session.prompt({ id: 'x', text: 'y' })).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it('gets an error with a code for each refusal', async () => {
    const status = (code: number) => {
      other = (_, response) => response.writeHead(code).end('no\u0000pe\n'.repeat(1_000))
      return session.status()
    }
    await expect(status(401)).rejects.toMatchObject({ code: 'unauthenticated' })
    await expect(status(404)).rejects.toMatchObject({ code: 'not_found' })
    await expect(status(500)).rejects.toMatchObject({ code: 'provider_error' })
    await expect(status(503)).rejects.toMatchObject({ code: 'unavailable' })
    await expect(status(200)).rejects.toMatchObject({ code: 'provider_error' })
  })
})
