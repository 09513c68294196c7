import { expect, it } from 'vitest'
import { Paths } from '../../src/sandbox/workspaces/paths.ts'
import { type KnownSessions, SessionSync, stateHeader } from '../../src/sandbox/workspaces/session-sync.ts'

/** Events as opencode writes them. What they do there is shown by test/workspaces. */
const streamed = (aggregateID: string, seq: number, more: object = {}) =>
  `data: ${JSON.stringify({ payload: { type: 'sync', syncEvent: { aggregateID, seq, ...more } } })}\n\n`
const seqOf = (message: string | undefined) =>
  message && JSON.parse(message.slice('data:'.length)).payload.syncEvent.seq
const updated = (seq: number, workspaceID?: string) => ({
  aggregateID: 'ses_1',
  seq,
  type: 'session.updated.1',
  data: { info: { id: 'ses_1', ...(workspaceID && { workspaceID }) } },
})

it('numbers go on as home has counted while the session moved', () => {
  const saved: KnownSessions[] = []
  const sync = new SessionSync({}, (known) => saved.push(known))
  expect(sync.refusal({ events: [updated(0), updated(1)] })).toBeUndefined()
  sync.stolen({ sessionID: 'ses_1' }, '{"ses_1":15}')
  // Home has 17 for the same fact, and gets what follows when it connects.
  expect(sync.streamed(streamed('ses_1', 16))).toBeUndefined()
  expect(sync.asked({ other: 3 })).toEqual({ other: 3 })
  expect(sync.isArriving).toBe(true)
  const asked = sync.asked({ ses_1: 17, other: 3 })
  expect([asked, sync.isArriving]).toEqual([{ ses_1: 15, other: 3 }, false])
  const history = [
    { aggregate_id: 'ses_1', seq: 16 },
    { aggregate_id: 'new', seq: 0 },
  ]
  expect(sync.history(asked, history)).toEqual([
    { aggregate_id: 'ses_1', seq: 18 },
    { aggregate_id: 'new', seq: 0 },
  ])
  expect(seqOf(sync.streamed(streamed('ses_1', 17)))).toBe(19)
  expect(seqOf(sync.streamed(streamed('new', 1)))).toBe(1)
  expect([stateHeader, sync.state('{"ses_1":17,"new":1}')]).toEqual([
    'x-opencode-sync',
    '{"ses_1":19,"new":1}',
  ])
  expect(saved.at(-1)).toEqual({ ses_1: 2, new: 0 })
  // The same in the next process.
  expect(new SessionSync(saved.at(-1)!, () => {}).asked({ ses_1: 20 })).toEqual({ ses_1: 18 })
})

it('a session that went home gets no more events, and cannot come again', () => {
  const sync = new SessionSync({ ses_1: 0 }, () => {})
  expect(sync.history({}, [{ aggregate_id: 'ses_1', seq: 3 }])).toEqual([])
  expect(sync.refusal({ events: [updated(0)] })).toContain('Fork it')
  const other = new SessionSync({}, () => {})
  expect(other.refusal({ events: [updated(0), updated(1, 'wrk_2')] })).toBeUndefined()
  expect(other.refusal({ events: [updated(2, 'wrk_2')] })).toBeUndefined()
  expect(other.refusal({ events: [updated(3)] })).toContain('came home')
  // From one workspace to another.
  const third = new SessionSync({}, () => {})
  expect(third.refusal({ events: [updated(0), updated(1, 'wrk_2')] })).toBeUndefined()
})

it('a move that failed at home ends', () => {
  const sync = new SessionSync({}, () => {})
  sync.stolen({ sessionID: 'ses_1' }, '{"ses_1":15}')
  for (let connects = 0; connects < 5; connects += 1) sync.asked({})
  expect(sync.isArriving).toBe(false)
  expect(sync.history({}, [{ aggregate_id: 'ses_1', seq: 16 }])).toEqual([])
})

it('hostile and unknown answers are passed on', () => {
  const sync = new SessionSync({}, () => {})
  for (const message of [
    'data: {"syncEvent"\n\n',
    ': "syncEvent"\n\n',
    'data: {"payload":{"syncEvent":{"aggregateID":1}}}\n\n',
  ])
    expect(sync.streamed(message)).toBe(message)
  expect(sync.history({}, { error: 1 })).toEqual({ error: 1 })
  expect(sync.state('nothing')).toBeUndefined()
  expect(sync.refusal(undefined)).toBeUndefined()
})

it('folders of sessions are those of their side', () => {
  const paths = new Paths('/home/me/app', '/workspace')
  const info = { directory: '/home/me/app/sub', other: '/home/me/app' }
  expect(paths.toWorkspace({ events: [{ data: { info } }, { data: {} }] })).toEqual({
    events: [{ data: { info: { directory: '/workspace/sub', other: '/home/me/app' } } }, { data: {} }],
  })
  expect(paths.historyToHome([{ data: { info: { directory: '/workspace' } } }, null])).toEqual([
    { data: { info: { directory: '/home/me/app' } } },
    null,
  ])
  expect(paths.sessionToHome({ directory: '/workspaces' })).toEqual({ directory: '/workspaces' })
  const message = `data: ${JSON.stringify({ directory: '/workspace', payload: { properties: { info: { directory: '/workspace/a' } } } })}\n\n`
  expect(paths.messageToHome(message)).toBe(
    message.replace('"/workspace"', '"/home/me/app"').replace('/workspace/a', '/home/me/app/a'),
  )
  expect(paths.messageToHome('data: {"directory":"/workspace"\n\n')).toBe(
    'data: {"directory":"/workspace"\n\n',
  )
})
