import { expect, it } from 'vitest'
import { newThread, openTestEngine, user } from '../testing/open.ts'

const scope = { appId: 'bot', guildId: 'g1' }

it('makes a sandbox, and answers messages in their order', async () => {
  const { threads, until, agents, registry } = await openTestEngine()
  expect(await threads.begin(newThread('t1', 'one'))).toMatchObject({ state: 'pending', title: 'new' })
  expect(await threads.say({ id: 'm2', threadId: 't1', by: user, text: 'two' })).toBe('queued')
  expect(await threads.say({ id: 'm2', threadId: 't1', by: user, text: 'two' })).toBe('known')
  const { answers } = await until(({ answers }) => answers.filter(({ isFinal }) => isFinal).length === 2)
  expect(answers.map(({ state, blocks }) => [state, blocks.at(-1)])).toEqual([
    ['done', { type: 'text', id: 'text-1', text: 'echo: one' }],
    ['done', { type: 'text', id: 'text-1', text: 'echo: two' }],
  ])
  // The sandbox is released when the last answer is complete.
  await expect.poll(async () => (await registry.in(scope).list())[0]?.uses).toEqual([])
  const [record] = await registry.in(scope).list()
  expect(record).toMatchObject({ threads: ['t1'], status: 'running' })
  expect(answers[0]).toMatchObject({
    blocks: [
      { type: 'step', text: `creating “${record!.name}” at local`, isDone: true },
      { type: 'step', text: 'starting the agent', isDone: true },
      { type: 'text' },
    ],
    footer: { sandbox: record!.name, provider: 'local', status: 'running', model: 'scripted/model' },
  })
  expect(agents.history('ses_t1').map(({ text }) => text)).toEqual(['one', 'two'])
  expect(await threads.get('t1')).toMatchObject({ state: 'ready', isWorking: false, queued: 0 })
})

it('tells when a sandbox without a message is ready, and takes messages later', async () => {
  const { threads, until, registry } = await openTestEngine()
  await threads.begin(newThread('t1', undefined, { sandbox: { create: { name: 'demo' } } }))
  await until(({ notices }) => notices.includes('“demo” is ready.'))
  expect(await registry.in(scope).get('demo')).toMatchObject({ uses: [] })
  expect(await threads.say({ id: 'm', threadId: 't1', by: user, text: 'hi' })).toBe('started')
  await until((transcript) => transcript.texts('t1').includes('done: echo: hi'))
})

it('aborts the answer and the queue', async () => {
  const { threads, until, transcript } = await openTestEngine()
  await threads.begin(newThread('t1', 'hang'))
  await threads.say({ id: 'm2', threadId: 't1', by: user, text: 'two' })
  await until(({ answers }) => answers.some(({ state }) => state === 'working'))
  expect(transcript().answers.map(({ state }) => state)).toEqual(['working', 'queued'])
  expect(await threads.abort('t1', user)).toBe(true)
  await until(({ answers }) => answers.every(({ state }) => state === 'aborted'))
  expect(await threads.abort('t1', user)).toBe(false)
  await threads.say({ id: 'm3', threadId: 't1', by: user, text: 'three' })
  await until((now) => now.texts('t1').includes('done: echo: three'))
})

it('asks, and hands the reply over', async () => {
  const { threads, until, transcript } = await openTestEngine()
  await threads.begin(newThread('t1', 'ask'))
  const { questions } = await until(({ questions }) => questions.length === 1)
  const { id } = questions[0]!.question
  await expect(threads.reply(id, { choices: ['other'] }, user)).rejects.toMatchObject({
    code: 'invalid_argument',
  })
  expect(await threads.reply(id, { choices: ['once'] }, user)).toBe(true)
  expect(await threads.reply(id, { choices: ['no'] }, user)).toBe(false)
  await until((now) => now.texts('t1').includes('done: echo: ask (once)'))
  expect(transcript().questions).toMatchObject([{ outcome: 'Ann: Once' }])
})

it('shows errors of the agent, and survives a lost connection', async () => {
  const { threads, until } = await openTestEngine()
  await threads.begin(newThread('t1', 'fail'))
  await threads.say({ id: 'm2', threadId: 't1', by: user, text: 'slow lose' })
  await until((now) => now.texts('t1').includes('failed: The model refused.'))
  await until((now) => now.texts('t1').includes('done: echo: slow lose'))
})

it('shows why a sandbox cannot be made, and tries again with the next message', async () => {
  const { threads, until, registry } = await openTestEngine()
  await registry.in(scope).create({ name: 'taken' })
  const sandbox = { create: { name: 'taken' } }
  await threads.begin(newThread('t1', 'one', { sandbox }))
  const { answers } = await until(({ answers }) => answers[0]?.isFinal)
  expect(answers[0]).toMatchObject({ state: 'failed', error: { message: 'The name “taken” is taken.' } })
  expect(await threads.get('t1')).toMatchObject({ state: 'failed' })
  await registry.in(scope).destroy('taken')
  await threads.say({ id: 'm2', threadId: 't1', by: user, text: 'two' })
  await until((now) => now.texts('t1').includes('done: echo: two'))
  expect(await registry.in(scope).get('taken')).toMatchObject({ threads: ['t1'] })
})

it.each(['cancel', 'deleted'] as const)('%s: removes a sandbox that is being made', async (how) => {
  const reached = Promise.withResolvers<void>()
  const { threads, until, provider, registry } = await openTestEngine({
    beforeCreate: async () => {
      reached.resolve()
      await new Promise((resolve) => setTimeout(resolve, 200))
    },
  })
  await threads.begin(newThread('t1', 'one'))
  await reached.promise
  if (how === 'cancel') expect(await threads.cancel('t1', user)).toBe(true)
  else await threads.deleted('t1')
  if (how === 'cancel') await until(({ answers }) => answers[0]?.state === 'aborted')
  await expect.poll(async () => (await registry.in(scope).list()).length).toBe(0)
  expect(await provider.list()).toEqual([])
  expect(await threads.get('t1')).toMatchObject({ state: 'ended', isWorking: false })
  expect(await threads.say({ id: 'm', threadId: 't1', by: user, text: 'late' })).toBe('unknown-thread')
})
