/** Marks identify the command of a process. The conformance kit tests their effects; this file tests the mechanism. */
import { getPriority } from 'node:os'
import type { RunnerClient } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alive, fresh, startRunner, type TestRunner } from './harness.ts'

const isRoot = process.getuid?.() === 0
const FIRST = 40_000
const COUNT = 1024

const sh = (line: string): string[] => ['sh', '-c', line]

async function groupsOf(client: RunnerClient, user?: string): Promise<number[]> {
  const { stdout } = await client.run({ id: fresh(), argv: ['id', '-G'], user })
  return stdout.toString().trim().split(' ').map(Number)
}

const marksIn = (groups: number[]) => groups.filter((group) => group >= FIRST && group < FIRST + COUNT)

describe.skipIf(!isRoot)('marks (need root)', () => {
  let runner: TestRunner
  let client: RunnerClient
  beforeAll(async () => {
    runner = await startRunner()
    client = await runner.connect()
  })
  afterAll(() => runner[Symbol.asyncDispose]())

  it('every command has its own mark, for any user; a shell keeps its mark', async () => {
    const [first, second, other] = [
      marksIn(await groupsOf(client)),
      marksIn(await groupsOf(client)),
      marksIn(await groupsOf(client, '1234:5678')),
    ]
    expect([first.length, second.length, other.length]).toEqual([1, 1, 1])
    expect(new Set([...first, ...second, ...other]).size).toBe(3)
    const shell = await client.openShell({ id: fresh('shell') })
    const ask = async () => (await shell.exec('id -G', { id: fresh() })).output.toString()
    expect(await ask()).toBe(await ask())
    await shell.close()
  })

  it('a mark is not reused while a process carries it', async () => {
    const daemon = await client.run({
      id: fresh(),
      argv: sh('setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; id -G'),
    })
    const [pid = 0, ...rest] = daemon.stdout.toString().trim().split(/\s+/).map(Number)
    const [mark = 0] = marksIn(rest)
    const seen: number[] = []
    try {
      // Enough commands to reuse the first marks.
      for (let count = 0; count < COUNT - 5; count += 1) await client.run({ id: fresh(), argv: ['true'] })
      for (let count = 0; count < 10; count += 1) seen.push(...marksIn(await groupsOf(client)))
      expect(seen).not.toContain(mark)
      const before = mark === FIRST ? FIRST + COUNT - 1 : mark - 1
      const after = mark === FIRST + COUNT - 1 ? FIRST : mark + 1
      expect(seen).toEqual(expect.arrayContaining([before, after]))
      expect(await alive(pid)).toBe(true)
    } finally {
      process.kill(pid, 'SIGKILL')
    }
  })

  it('a signal reaches processes inside and outside the process group', async () => {
    const id = fresh()
    const each = 'trap "echo usr1" USR1; echo ready; while :; do sleep 0.02; done'
    const running = await client.start({ id, argv: sh(`setsid sh -c '${each}' & ${each}`) })
    let text = ''
    const until = async (done: () => boolean) => {
      while (!done()) {
        const event = await running.next()
        if (event?.type !== 'output') throw new Error(`ended: ${text}`)
        text += event.data.toString()
      }
    }
    const count = (word: string) => text.split(word).length - 1
    await until(() => count('ready') === 2)
    await client.signal(id, 'USR1', { group: true })
    await until(() => count('usr1') === 2)
    await client.signal(id, 'KILL', { group: true })
    running.discard()
    expect((await running.exit).signal).toBe('SIGKILL')
  })
})

describe.skipIf(!isRoot)('without marks from the kernel (needs root to drop the permission)', () => {
  it('commands run, and a signal reaches the process group', async () => {
    await using runner = await startRunner({ wrap: ['setpriv', '--bounding-set=-setgid', '--'] })
    const client = await runner.connect()
    expect(marksIn(await groupsOf(client))).toEqual([])
    const id = fresh()
    const running = await client.start({ id, argv: sh('sleep 1000 & echo $!; wait') })
    const event = await running.next()
    const child = Number(event?.type === 'output' ? event.data.toString() : 0)
    await client.signal(id, 'KILL', { group: true })
    while (await alive(child)) await client.ping()
  })
})

describe.skipIf(!isRoot)('priority (needs root)', () => {
  it('a runner with a raised priority starts commands with the normal priority', async () => {
    await using runner = await startRunner({ wrap: ['nice', '-n', String(-5 - getPriority())] })
    const client = await runner.connect()
    expect((await client.run({ id: fresh(), argv: ['nice'] })).stdout.toString()).toBe('0\n')
  })

  it('a runner with a lowered priority starts commands with the same priority', async () => {
    await using runner = await startRunner({ wrap: ['nice', '-n', String(5 - getPriority())] })
    const client = await runner.connect()
    expect((await client.run({ id: fresh(), argv: ['nice'] })).stdout.toString()).toBe('5\n')
  })
})
