import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { expect, it } from 'vitest'
import { newThread, openTestEngine, user } from '../testing/open.ts'

const scope = { appId: 'bot', guildId: 'g1' }
const guild = { guildId: 'g1', channelId: 'c1' }
const named = (name: string) => ({ sandbox: { create: { name } } })
const done = (threadId: string, text: string) => (now: { texts(id: string): string[] }) =>
  now.texts(threadId).includes(`done: echo: ${text}`)

it('stops the sandbox when its last thread is archived, and resumes it with the next message', async () => {
  const { threads, until, registry } = await openTestEngine()
  await threads.begin(newThread('t1', 'one', named('demo')))
  await until(done('t1', 'one'))
  await threads.begin(newThread('t2', 'two', { sandbox: { existing: 'demo' } }))
  await until(done('t2', 'two'))
  const status = async () => (await registry.in(scope).get('demo')).status
  await threads.archived('t1')
  await expect.poll(async () => (await threads.get('t1'))?.state).toBe('archived')
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(await status()).toBe('running')
  await threads.archived('t2')
  await expect.poll(status).toBe('stopped')
  await threads.unarchived('t1')
  await threads.say({ id: 'again', threadId: 't1', by: user, text: 'again' })
  const { notices } = await until(done('t1', 'again'))
  expect(await status()).toBe('running')
  expect(notices).toContain(
    '“demo” was started again: its processes are gone, and its files are still there.',
  )
})

it('archives the threads of a sandbox that is destroyed, and continues after a connect', async () => {
  const { threads, until, provider, transcript } = await openTestEngine()
  await threads.begin(newThread('t1', 'hang', named('demo')))
  await until(({ answers }) => answers.some(({ state }) => state === 'working'))
  expect(await threads.destroy(guild, 'demo', user)).toEqual({ threads: ['t1'] })
  expect(await provider.list()).toEqual([])
  expect(await threads.get('t1')).toMatchObject({ state: 'archived' })
  expect(transcript().lines).toContainEqual({ do: 'archive', threadId: 't1' })
  await until(({ answers }) => answers.every(({ isFinal }) => isFinal))
  await expect.poll(async () => (await threads.get('t1'))?.isWorking).toBe(false)
  await threads.say({ id: 'm2', threadId: 't1', by: user, text: 'two' })
  await until((now) => now.texts('t1').includes('failed: The sandbox of this thread was destroyed.'))
  await expect.poll(async () => (await threads.get('t1'))?.isWorking).toBe(false)
  await threads.begin(newThread('t2', 'other', named('next')))
  await until(done('t2', 'other'))
  await threads.connect('t1', 'next', user)
  await threads.say({ id: 'm3', threadId: 't1', by: user, text: 'three' })
  await until(done('t1', 'three'))
  expect(await threads.get('t1')).toMatchObject({ sandbox: 'next', state: 'ready' })
})

it('ends the conversations of a deleted channel', async () => {
  const { threads, until, registry } = await openTestEngine()
  await threads.begin(newThread('t1', 'one', named('demo')))
  await threads.begin(newThread('t2', 'two', { ...named('other'), channelId: 'c2' }))
  await until(done('t1', 'one'))
  await until(done('t2', 'two'))
  await threads.channelDeleted('c1')
  await expect.poll(async () => (await registry.in(scope).get('demo')).status).toBe('stopped')
  await expect.poll(async () => (await registry.in(scope).get('demo')).threads).toEqual([])
  expect(await threads.get('t1')).toMatchObject({ state: 'ended' })
  expect(await threads.get('t2')).toMatchObject({ state: 'ready' })
})

it('answers each message with an error while the provider is down, and then continues', async () => {
  let isDown = true
  const { threads, until, agents } = await openTestEngine({
    beforeCreate: async () => {
      if (isDown)
        throw new SandboxError('unavailable', 'The provider does not answer.', { hint: 'Try later.' })
    },
  })
  await threads.begin(newThread('t1', 'one'))
  await until((now) => now.texts('t1').includes('failed: The provider does not answer.'))
  await threads.say({ id: 'm2', threadId: 't1', by: user, text: 'two' })
  const { answers } = await until(
    (now) => now.texts('t1').length === 2 && now.answers.every((one) => one.isFinal),
  )
  expect(answers.map(({ error }) => error)).toEqual([
    { message: 'The provider does not answer.', hint: 'Try later.' },
    { message: 'The provider does not answer.', hint: 'Try later.' },
  ])
  isDown = false
  await threads.say({ id: 'm3', threadId: 't1', by: user, text: 'three' })
  await until(done('t1', 'three'))
  expect(agents.history('ses_t1').map(({ text }) => text)).toEqual(['three'])
})

it('runs commands, and shows and packs what the thread has changed', async () => {
  const { threads, until, dataDir } = await openTestEngine()
  await threads.begin(newThread('t1', 'one', named('demo')))
  await until(done('t1', 'one'))
  await expect(threads.diff('t1', user)).rejects.toMatchObject({ code: 'not_found' })
  const shell = (command: string) => threads.shell('t1', command, user)
  const git = 'git -c user.name=a -c user.email=a@b'
  expect(
    await shell(`git init -q && echo one >a && git add a && ${git} commit -qm first; exit 3`),
  ).toMatchObject({
    exitCode: 3,
    isCut: false,
  })
  // The base is the commit at the next opening of the agent.
  await threads.say({ id: 'm2', threadId: 't1', by: user, text: 'two' })
  await until(done('t1', 'two'))
  await expect.poll(async () => (await threads.get('t1'))?.isWorking).toBe(false)
  expect(await threads.diff('t1', user)).toBe('')
  await expect(threads.pull('t1', 'branch', user)).rejects.toMatchObject({ code: 'not_found' })
  await shell(
    `echo two >>a; echo new >b; echo no >ignored; echo ignored >.gitignore; ${git} commit -qam second`,
  )
  const patch = await threads.diff('t1', user)
  expect(patch).toMatch(/\+two[\s\S]*\+\+\+ b\/b\n[\s\S]*\+new/)
  expect(patch).not.toContain('+no\n')
  expect((await shell('git status --porcelain')).output).toBe('?? .gitignore\n?? b\n')
  const { name, bytes } = await threads.pull('t1', 'branch', user)
  expect(name).toBe('demo.bundle')
  const bundle = path.join(dataDir, name)
  writeFileSync(bundle, bytes)
  const heads = execFileSync('git', ['bundle', 'list-heads', bundle], { encoding: 'utf8' })
  expect(heads).toMatch(/refs\/heads\/sandkasten\/demo\n$/)
  expect((await shell('git branch --list')).output).not.toContain('sandkasten')
})

it('records who did what, with the result, and reads settings of a channel over those of its guild', async () => {
  const { threads } = await openTestEngine({ start: false })
  await threads.saveSettings(
    { guildId: 'g1' },
    { allowed: { use: { roles: ['r'], users: [] } }, provider: 'a' },
    user,
  )
  await threads.saveSettings(guild, { allowed: {}, provider: 'b' }, user)
  expect(await threads.settings(guild)).toMatchObject({ provider: 'b', allowed: { use: { roles: ['r'] } } })
  expect(await threads.getProviderForChannel('c1')).toBe('b')
  expect(await threads.getProviderForChannel('c2', 'g1')).toBe('a')
  await expect(threads.destroy(guild, 'nothing', user)).rejects.toMatchObject({ code: 'not_found' })
  const log = await threads.auditLog({ guildId: 'g1' })
  expect(log.map(({ action, target, result, by }) => [by.name, action, target, result])).toContainEqual([
    'Ann',
    'destroy',
    'nothing',
    'not_found',
  ])
})

it('continues in a second process when the first one closes, and never works in both', async () => {
  const first = await openTestEngine()
  await first.threads.begin(newThread('t1', 'slow one', named('demo')))
  await first.until(({ answers }) => answers.some(({ state }) => state === 'working'))
  const second = await openTestEngine({ dataDir: first.dataDir })
  await second.threads.say({ id: 'm2', threadId: 't1', by: user, text: 'two' })
  expect(second.agents.opened).toEqual([])
  await first.threads.close()
  await second.until(done('t1', 'two'))
  expect(second.transcript().texts('t1')).toEqual(['done: echo: slow one', 'done: echo: two'])
  expect(second.agents.history('ses_t1').map(({ text }) => text)).toEqual(['slow one', 'two'])
})
