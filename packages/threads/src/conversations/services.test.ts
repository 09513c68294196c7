import { expect, it } from 'vitest'
import { newThread, openTestEngine, user } from '../testing/open.ts'

async function atWork() {
  const engine = await openTestEngine({
    limits: { fileBytes: 100, filesPerAnswer: 2, schedulesPerThread: 1 },
  })
  await engine.threads.begin(newThread('t1', 'hang'))
  await engine.until(({ answers }) => answers.some(({ state }) => state === 'working'))
  return { ...engine, services: engine.agents.services.get('t1')! }
}

it('sends files to the thread, each call once and within the limits', async () => {
  const { services, transcript } = await atWork()
  const file = (size: number) => ({ name: '../a b\u001b.txt', bytes: new Uint8Array(size) })
  await services.sendFile('call-1', file(100))
  await services.sendFile('call-1', file(100))
  const files = () =>
    [...transcript().posts.values()].flatMap((post) => ('notice' in post ? [post.notice.files] : []))
  expect(files()).toEqual([['.._a b_.txt (100)']])
  await expect(services.sendFile('call-2', file(101))).rejects.toMatchObject({ code: 'invalid_argument' })
  await services.sendFile('call-3', file(1))
  await expect(services.sendFile('call-4', file(1))).rejects.toMatchObject({ code: 'quota_exceeded' })
})

it('asks a user, and ends the question when the answer ends', async () => {
  const { services, threads, until } = await atWork()
  const choices = [{ value: 'a', label: 'A' }]
  const question = { text: 'Which?', choices, isMultiple: false, allowsText: true }
  const reply = services.ask('call-1', question)
  const { questions } = await until((now) => now.questions.length === 1)
  expect(await threads.reply(questions[0]!.question.id, { choices: [], text: 'other' }, user)).toBe(true)
  expect(await reply).toEqual({ choices: [], text: 'other' })
  // The same call again has the same reply.
  expect(await services.ask('call-1', question)).toEqual({ choices: [], text: 'other' })
  const second = services.ask('call-2', question)
  await until((now) => now.questions.length === 2)
  await threads.abort('t1', user)
  expect(await second).toEqual({ rejected: true })
  await until((now) => now.questions.every(({ outcome }) => outcome !== undefined))
})

it('sets the title, and schedules messages within the limits', async () => {
  const { services, threads, transcript } = await atWork()
  await services.setTitle('  New\ntitle ')
  expect(await threads.get('t1')).toMatchObject({ title: 'New title' })
  expect(transcript().lines).toContainEqual({ do: 'rename', threadId: 't1', title: 'New title' })
  await expect(services.setTitle(' ')).rejects.toMatchObject({ code: 'invalid_argument' })
  const at = new Date(Date.now() + 3_600_000)
  await services.schedule('call-1', { at, text: 'look again' })
  await services.schedule('call-1', { at, text: 'look again' })
  await expect(services.schedule('call-2', { at, text: 'more' })).rejects.toMatchObject({
    code: 'quota_exceeded',
  })
  await expect(services.schedule('call-3', { at: new Date(8e15), text: 'x' })).rejects.toMatchObject({
    code: 'invalid_argument',
  })
})
