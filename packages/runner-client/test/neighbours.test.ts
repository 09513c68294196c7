/** Several runners in one account, as on an SSH host. Each runner ends exactly the processes that it started. */
import { once } from 'node:events'
import type { RunnerClient } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alive, fresh, startRunner, type TestRunner } from './harness.ts'

const sh = (line: string): string[] => ['sh', '-c', line]
const isRoot = process.getuid?.() === 0
/** Without permission to change groups, the runner marks processes with a resource limit, as for ordinary accounts. */
const byLimit = isRoot ? { wrap: ['setpriv', '--bounding-set=-setgid', '--'] } : {}

/** The first line that a program prints, as a number. */
async function started(client: RunnerClient, id: string, line: string): Promise<number> {
  const task = await client.start({ id, argv: sh(line) })
  const event = await task.next()
  task.detach()
  return Number(event?.type === 'output' ? event.data.toString() : Number.NaN)
}

const gone = (pid: number) => expect.poll(() => alive(pid)).toBe(false)

describe.each([
  ['marks by group', {}],
  ['marks by a limit', byLimit],
] as const)('two runners of one account, %s', (_, options) => {
  let [one, two]: TestRunner[] = []
  let [a, b]: RunnerClient[] = []
  beforeAll(async () => {
    ;[one, two] = [await startRunner({ ...options }), await startRunner({ ...options })]
    ;[a, b] = [await one.connect(), await two.connect()]
  })
  afterAll(async () => {
    await one?.[Symbol.asyncDispose]()
    await two?.[Symbol.asyncDispose]()
  })

  it('a signal and a timeout end only processes of this runner', async () => {
    // New runners assign the same marks in the same order.
    const line = 'setsid sleep 1000 & echo $!; wait'
    const [mine, theirs] = [await started(a!, 'p', line), await started(b!, 'p', line)]
    await a!.signal('p', 'KILL', { group: true })
    await gone(mine)
    expect(await alive(theirs)).toBe(true)
    expect((await b!.list()).find(({ id }) => id === 'p')?.running).toBe(true)

    const late = await a!.run({ id: fresh(), argv: sh('setsid sleep 1000'), timeoutMs: 50, graceMs: 0 })
    expect(late.timedOut).toBe(true)
    expect(await alive(theirs)).toBe(true)
    await b!.signal('p', 'KILL', { group: true })
    await gone(theirs)
  })

  it('a mark that a program of another runner carries is free here', async () => {
    const word = isRoot && options !== byLimit ? 'id -G' : 'ulimit -Hx'
    const marks = (text: string) =>
      text
        .split(/\s+/)
        .map(Number)
        .filter((id) => id >= 40_000 && id < 41_024)
    const mark = async (client: RunnerClient) =>
      marks((await client.run({ id: fresh(), argv: ['bash', '-c', word] })).stdout.toString())
    const left = await b!.run({
      id: fresh(),
      argv: ['bash', '-c', `setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; ${word}`],
    })
    const [pid = 0] = left.stdout.toString().split('\n').map(Number)
    const [theirs] = marks(left.stdout.toString())
    expect(theirs).toBeDefined()
    try {
      // Almost all marks. Before it reuses marks, the runner checks which processes carry them.
      for (let count = 0; count < 1000; count += 1) await a!.run({ id: fresh(), argv: ['true'] })
      const seen: number[] = []
      for (let count = 0; count < 100; count += 1) seen.push(...(await mark(a!)))
      expect(seen).toContain(theirs)
    } finally {
      process.kill(pid, 'SIGKILL')
    }
  })

  it('a second TERM ends all descendants of one runner and none of the other', async () => {
    const stubborn = `trap "" TERM; echo $$; while :; do sleep 0.01; done`
    const line = `setsid sh -c 'setsid sh -c "trap \\"\\" TERM; echo \\$\\$; while :; do sleep 0.01; done" & wait' & wait`
    const deep = await started(a!, 'deep', line)
    const theirs = await started(b!, 'other', stubborn)
    const exited = once(one!.process, 'exit')
    one!.process.kill('SIGTERM')
    let refused: { code?: string } = {}
    while (refused.code === undefined)
      refused = await a!.startDetached({ id: fresh(), argv: ['true'] }).catch((error) => error)
    expect(await alive(deep)).toBe(true)
    one!.process.kill('SIGTERM')
    expect((await exited)[0]).toBe(0)
    expect(await alive(deep)).toBe(false)
    expect(await alive(theirs)).toBe(true)
  })
})

describe('a program without its mark', () => {
  it('ends with the command if it is a descendant, also after it has left the group', async () => {
    await using runner = await startRunner({ ...byLimit })
    const client = await runner.connect()
    const pid = await started(client, 'p', 'prlimit --locks=5:5 setsid sleep 1000 & echo $!; wait')
    // Wait until prlimit has executed the program.
    await expect
      .poll(async () =>
        (await client.run({ id: fresh(), argv: ['cat', `/proc/${pid}/comm`] })).stdout.toString(),
      )
      .toBe('sleep\n')
    await client.signal('p', 'KILL', { group: true })
    await gone(pid)
  })

  it('always ends with the runner', async () => {
    await using runner = await startRunner({ ...byLimit })
    const client = await runner.connect()
    const pid = await started(
      client,
      'p',
      `prlimit --locks=5:5 setsid sh -c 'trap "" TERM; sleep 1000' & echo $!`,
    )
    await expect(client.wait('p')).resolves.toMatchObject({ exitCode: 0 })
    expect(await alive(pid)).toBe(true)
    const exited = once(runner.process, 'exit')
    runner.process.kill('SIGTERM')
    while (
      !(await client.startDetached({ id: fresh(), argv: ['true'] }).then(
        () => false,
        () => true,
      ))
    );
    runner.process.kill('SIGTERM')
    await exited
    expect(await alive(pid)).toBe(false)
  })
})
