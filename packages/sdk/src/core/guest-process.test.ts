import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { GuestLink } from '../shared/guest/link.ts'
import { randomId } from '../shared/ids.ts'
import { chunksOf } from '../shared/output/bytes.ts'
import type { ProcessEvent } from '../spec/index.ts'
import type { ProcessSpec } from './driver.ts'
import { findGuest, listGuests, startGuest } from './guest-process.ts'
import { localLink } from './test-kit.ts'

const runs = '/tmp/.sandkasten/run'
const used: string[] = []
const linkOf = (kind: 'stream' | 'page') => {
  used.push(`test-${randomId()}`)
  return localLink(used.at(-1)!, kind)
}
const start = (link: GuestLink, script: string, more: Partial<ProcessSpec> = {}) =>
  startGuest(
    link,
    {
      cmd: 'sh',
      args: ['-c', script],
      env: {},
      stdin: 'empty',
      detached: true,
      reading: false,
      outputBufferBytes: 1024 * 1024,
      ...more,
    },
    { cwd: '/tmp', env: more.env ?? {} },
    {},
  )
const textOf = async (events: AsyncIterable<ProcessEvent>) => {
  let text = ''
  for await (const event of events)
    text += event.type === 'exit' ? `(${event.exitCode})` : Buffer.from(event.data)
  return text
}
/** The folder of the programs of a link. */
const folderOf = ({ id }: GuestLink) => path.join(runs, id, readdirSync(path.join(runs, id))[0]!)
/** The names of the programs that a call of the agent runs at this moment. */
const programsOf = (call: string) => {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,comm=,args=']).toString().split('\n')
  const all = lines.map((line) => /^ *(\d+) +(\d+) +(\S+) +(.*)/.exec(line) ?? [])
  const callers = all.filter(([, , , , args]) => args?.includes(call)).map(([, pid]) => pid)
  return all.filter(([, , parent]) => callers.includes(parent)).map(([, , , name]) => name)
}

describe.skipIf(process.platform !== 'linux')('a program of the guest agent', () => {
  afterEach(() => {
    for (const id of used.splice(0)) rmSync(path.join(runs, id), { recursive: true, force: true })
  })

  it.each(['stream', 'page'] as const)('is found by another client, with all output: %s', async (kind) => {
    const link = linkOf(kind)
    const { execId } = await start(link, 'echo one; echo two >&2; exit 3')
    const found = await findGuest(localLink(link.id, kind), execId, {})
    expect(await textOf(found.events(0))).toMatch(/^(one\ntwo\n|two\none\n)\(3\)$/)
    // Programs of this library are not listed.
    await start(link, 'true', { execId: '.own' })
    expect(await listGuests(link, {})).toMatchObject([
      { execId, running: false, exit: { exitCode: 3 }, cmd: 'sh', args: ['-c', expect.any(String)] },
    ])
  })

  it.each(['stream', 'page'] as const)(
    'is interrupted, not waited for, if its keeper is killed: %s',
    async (kind) => {
      const link = linkOf(kind)
      const { execId } = await start(link, 'echo begun; exec sleep 1000')
      const folder = path.join(folderOf(link), `p-${execId}`)
      const process_ = await findGuest(link, execId, {})
      const events = process_.events(0)
      expect((await events.next()).value).toMatchObject({ seq: 1 })
      const [keeper] = readFileSync(path.join(folder, 'supervisor'), 'utf8').split(' ')
      process.kill(Number(keeper), 'SIGKILL')
      await expect(events.next()).rejects.toMatchObject({ code: 'interrupted' })
      expect(await process_.status({})).toEqual({ running: false })
      await process_.kill('SIGKILL', {})
    },
  )

  it('a second start with its id waits for its process id, which a full disk does not hold', async () => {
    const link = linkOf('page')
    await start(link, 'true')
    const folder = path.join(folderOf(link), 'p-mine')
    mkdirSync(folder)
    writeFileSync(path.join(folder, 'pid'), '')
    writeFileSync(path.join(folder, 'ready'), '')
    const second = start(link, 'true', { execId: 'mine' })
    await expect.poll(() => programsOf(`spawn ${link.id} - mine`)).toContain('sleep')
    writeFileSync(path.join(folder, 'pid'), '123 4\n')
    expect(await second).toMatchObject({ execId: 'mine', pid: 123 })
    // The first start removes the fifo when the program runs.
    writeFileSync(path.join(folder, 'pid'), '')
    rmSync(path.join(folder, 'ready'))
    expect((await start(link, 'true', { execId: 'mine' })).pid).toBeUndefined()
  })

  it('takes a part of its input once, however often it is sent', async () => {
    const link = linkOf('page')
    const { execId } = await start(link, 'cat', { stdin: 'pipe' })
    const feed = (part: string) =>
      link.ask('feed', [link.id, '-', execId, part, 2000, '-'], { input: [Buffer.from(part)] })
    expect(await Promise.all([feed('once'), feed('once')])).toEqual(['ok\n', 'ok\n'])
    expect(await feed('once')).toBe('ok\n')
    expect(await feed('next')).toBe('ok\n')
    await link.ask('eof', [link.id, '-', execId], {})
    expect(await textOf((await findGuest(link, execId, {})).events(0))).toBe('oncenext(0)')
  })

  it('reads input that is longer than one call', async () => {
    for (const kind of ['stream', 'page'] as const) {
      const input = chunksOf('x'.repeat(kind === 'stream' ? 3_000_000 : 60_000))
      const counted = await start(linkOf(kind), 'wc -c', { stdin: input })
      expect((await textOf(counted.events(0))).trim()).toBe(kind === 'stream' ? '3000000\n(0)' : '60000\n(0)')
    }
  })

  it('never runs if its start was cancelled before it arrived', async () => {
    const link = linkOf('page')
    const mark = `/tmp/${link.id}`
    await link.ask('cancel', [link.id, '-', 'mine'], {})
    const process_ = await start(link, `echo ran >${mark}`, { execId: 'mine' })
    expect(await textOf(process_.events(0))).toBe('(137)')
    expect(readdirSync('/tmp')).not.toContain(link.id)
  })

  it('leaves a bounded record: the newest hundred ended programs, and 64 MiB', async () => {
    const link = linkOf('page')
    await textOf((await start(link, 'true')).events(0))
    const folder = folderOf(link)
    const record = (name: string, bytes: number, ageSeconds: number) => {
      mkdirSync(path.join(folder, name, 'r'), { recursive: true })
      writeFileSync(path.join(folder, name, 'o.0'), Buffer.alloc(bytes, 'x'))
      writeFileSync(path.join(folder, name, 'exit'), '0 - 0 1\n')
      const time = Date.now() / 1000 - ageSeconds
      utimesSync(path.join(folder, name, 'exit'), time, time)
    }
    for (let age = 1; age <= 130; age += 1) record(`p-small${age}`, 10, 1000 + age)
    await textOf((await start(link, 'true')).events(0))
    await expect.poll(() => readdirSync(folder).length).toBe(100)
    expect(readdirSync(folder)).toContain('p-small98')
    for (let age = 1; age <= 5; age += 1) record(`p-large${age}`, 20 * 1024 * 1024, 100 + age)
    await textOf((await start(link, 'true')).events(0))
    await expect.poll(() => readdirSync(folder).filter((name) => !name.startsWith('p-large')).length).toBe(3)
    expect(
      readdirSync(folder)
        .filter((name) => name.startsWith('p-large'))
        .sort(),
    ).toEqual(['p-large1', 'p-large2', 'p-large3'])
  })

  it('forgets the programs of an earlier start of the sandbox', async () => {
    const link = linkOf('page')
    mkdirSync(path.join(runs, link.id, 'earlier', 'p-old'), { recursive: true })
    await textOf((await start(link, 'true')).events(0))
    expect(readdirSync(path.join(runs, link.id))).not.toContain('earlier')
  })

  it('has neither its environment nor its input in an argument', async () => {
    const link = linkOf('page')
    const secret = `sk-${randomId()}`
    const process_ = await start(link, 'cat >/dev/null; echo "$SECRET" | wc -c; sleep 1000', {
      env: { SECRET: secret },
      stdin: chunksOf(secret),
    })
    for await (const event of process_.events(0)) if (event.type === 'stdout') break
    const lines = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => {
        try {
          return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
        } catch {
          return ''
        }
      })
    expect(lines.filter((line) => line.includes(link.id))).not.toEqual([])
    expect(lines.filter((line) => line.includes(secret))).toEqual([])
    await process_.kill('SIGKILL', {})
  })

  it('refuses a variable that a shell cannot set', async () => {
    await expect(start(linkOf('page'), 'true', { env: { 'a.b': 'x' } })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  })
})
