import type { OutputEvent, RunnerClient, TaskOutput } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fresh, startRunner, type TestRunner } from './harness.ts'

let runner: TestRunner
let client: RunnerClient

beforeAll(async () => {
  runner = await startRunner()
  client = await runner.connect()
})
afterAll(() => runner[Symbol.asyncDispose]())

const sh = (line: string): string[] => ['sh', '-c', line]
const gibibyte = 1024 ** 3

async function all(output: TaskOutput): Promise<OutputEvent[]> {
  const events: OutputEvent[] = []
  for (let event = await output.next(); event !== undefined; event = await output.next()) events.push(event)
  return events
}

const bytesOf = (events: OutputEvent[]): Buffer =>
  Buffer.concat(events.map((event) => (event.type === 'output' ? event.data : Buffer.alloc(0))))

/** A process that writes `lines` numbered lines of 100 bytes. */
const numbered = (lines: number): string[] =>
  sh(`awk 'BEGIN { for (i = 1; i <= ${lines}; i++) printf "%099d\\n", i }'`)

describe('merged output', () => {
  it('has both streams in the order of the program, all on stdout', async () => {
    const line = 'for i in $(seq 500); do echo o$i; echo e$i >&2; done; echo last >/dev/stderr'
    const events = await all(await client.start({ id: fresh(), argv: sh(line), merged: true }))
    const expected = Array.from({ length: 500 }, (_, index) => `o${index + 1}\ne${index + 1}\n`).join('')
    expect(bytesOf(events).toString()).toBe(`${expected}last\n`)
    expect(new Set(events.map((event) => event.type === 'output' && event.channel))).toEqual(
      new Set(['stdout']),
    )
  })
})

describe('numbered output', () => {
  it('is numbered from 1 without gaps and replayed from any number', async () => {
    const id = fresh()
    const first = await all(await client.start({ id, argv: numbered(2000) }))
    expect(first.map((event) => event.type === 'output' && event.number)).toEqual(
      first.map((_, index) => index + 1),
    )
    expect(bytesOf(first).length).toBe(200_000)
    const last = first.length
    for (const after of [0, 1, Math.floor(last / 2), last - 1, last]) {
      const again = await all(await client.attach(id, { after }))
      expect(again).toEqual(first.slice(after))
    }
    await expect(client.attach(id, { after: last + 1 })).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it('waits for its first reader, so output of a fast program is not lost', async () => {
    for (const start of [
      (id: string) => client.startDetached({ id, argv: numbered(10_000), ringBytes: 20_000 }),
      (id: string) =>
        client
          .start({ id, argv: numbered(10_000), ringBytes: 20_000, lossy: true })
          .then((own) => own.discard()),
    ]) {
      const id = fresh()
      await start(id)
      // The program has filled the ring buffer and its pipe by now.
      await expect
        .poll(async () => (await client.list()).find((task) => task.id === id)!.last)
        .toBeGreaterThan(2)
      const events = await all(await client.attach(id))
      expect(bytesOf(events).length).toBe(1_000_000)
    }
  })

  it('reports dropped output and continues with the rest', async () => {
    const id = fresh()
    await client.startDetached({ id, argv: numbered(10_000), ringBytes: 20_000 })
    expect((await client.wait(id)).exitCode).toBe(0)
    const events = await all(await client.attach(id))
    expect(events[0]).toMatchObject({ type: 'gone', from: 1 })
    const text = bytesOf(events).toString()
    expect(text.endsWith(`${'10000'.padStart(99, '0')}\n`)).toBe(true)
    expect(text.length).toBeLessThanOrEqual(20_000)
    expect(text.length).toBeGreaterThan(10_000)
    const info = (await client.list()).find((task) => task.id === id)
    expect(events[0]).toMatchObject({ to: info?.first })
  })

  it('resumes after a lost connection without duplicates or gaps', async () => {
    const id = fresh()
    const lines = 30_000
    const collected: Buffer[] = []
    let after = 0
    let connections = 0
    for (;;) {
      const own = await runner.connect()
      connections += 1
      const output =
        connections === 1
          ? await own.start({ id, argv: numbered(lines), ringBytes: 4 * 1024 * 1024 })
          : await own.attach(id, { after })
      let taken = 0
      for (let event = await output.next(); event !== undefined; event = await output.next()) {
        if (event.type === 'gone') throw new Error('gone')
        after = event.number
        collected.push(event.data)
        if (++taken === 10 && connections < 5) break
      }
      if (taken < 10 || connections === 5) break
      // The connection is destroyed, not closed.
      own.connection.violated(Object.assign(new Error('plug'), { code: 'test' }) as never)
    }
    expect(connections).toBe(5)
    const text = Buffer.concat(collected).toString()
    expect(text.length).toBe(lines * 100)
    expect(
      text
        .split('\n')
        .slice(0, -1)
        .every((line, index) => Number(line) === index + 1),
    ).toBe(true)
  })

  it('a disconnecting client ends no process', async () => {
    const id = fresh()
    const own = await runner.connect()
    await own.start({ id, argv: sh('sleep 0.05; echo still here') })
    own.close()
    expect((await client.wait(id)).exitCode).toBe(0)
    expect(bytesOf(await all(await client.attach(id))).toString()).toBe('still here\n')
  })

  it('another client can take over stdin only after the writer has disconnected', async () => {
    const id = fresh()
    const own = await runner.connect()
    const first = await own.start({ id, argv: ['cat'], stdin: true })
    await first.write('one ')
    await expect(client.attach(id, { stdin: true })).rejects.toMatchObject({ code: 'conflict' })
    own.close()
    await own.connection.closed
    // The runner sees the end of that connection before the next request.
    let second: TaskOutput | undefined
    while (second === undefined) second = await client.attach(id, { stdin: true }).catch(() => undefined)
    await second.write('two')
    await second.endStdin()
    expect((await second.exit).exitCode).toBe(0)
    expect(bytesOf(await all(await client.attach(id))).toString()).toBe('one two')
  })
})

describe('a gigabyte of output', () => {
  it('to a stopped reader: the process waits, nothing is lost, memory stays bounded', async () => {
    const id = fresh()
    const size = 64 * 1024 * 1024
    const output = await client.start({ id, argv: sh(`head -c ${size} /dev/zero`) })
    let total = 0
    for (let taken = 0; taken < 3; taken++) {
      const event = await output.next()
      if (event?.type === 'output') total += event.data.length
    }
    // The process can have written at most the ring (256 KiB), one window (256 KiB) and a pipe.
    const other = await runner.connect()
    for (let round = 0; round < 20; round++) await other.run({ id: fresh(), argv: ['true'] })
    const info = (await other.list()).find((task) => task.id === id)
    expect(info?.running).toBe(true)
    expect(await runner.rssKb()).toBeLessThan(6 * 1024)
    for (let event = await output.next(); event !== undefined; event = await output.next()) {
      if (event.type === 'gone') throw new Error('a paced reader lost output')
      total += event.data.length
    }
    expect(total).toBe(size)
    expect((await output.exit).exitCode).toBe(0)
  })

  it('reaches an active reader in bounded memory on both sides', async () => {
    const output = await client.start({ id: fresh(), argv: sh(`head -c ${gibibyte} /dev/zero`) })
    let [total, most] = [0, 0]
    for (
      let event = await output.next(), count = 0;
      event !== undefined;
      event = await output.next(), count++
    ) {
      if (event.type === 'output') total += event.data.length
      if (count % 2000 === 0) most = Math.max(most, await runner.rssKb())
    }
    expect(total).toBe(gibibyte)
    expect(most).toBeLessThan(6 * 1024)
  })

  it('without a reader neither stalls nor grows memory; a lossy reader never blocks it', async () => {
    const id = fresh()
    await client.startDetached({ id, argv: sh(`head -c ${gibibyte} /dev/zero; echo end`) })
    const lossy = await (await runner.connect()).attach(id, { lossy: true })
    expect((await client.wait(id)).exitCode).toBe(0)
    // Far less than 1 GiB. Earlier tests have fragmented the memory of the runner.
    expect(await runner.rssKb()).toBeLessThan(8 * 1024)
    const events = await all(lossy)
    expect(events.some((event) => event.type === 'gone')).toBe(true)
    expect(bytesOf(events).toString('latin1').endsWith('end\n')).toBe(true)
  })

  it('on one stream does not block another stream', async () => {
    const flood = await client.start({ id: fresh(), argv: ['cat', '/dev/zero'] })
    flood.discard()
    for (let round = 0; round < 20; round++) {
      expect((await client.run({ id: fresh(), argv: ['echo', 'x'] })).stdout.toString()).toBe('x\n')
    }
    await client.signal((await client.list()).find((task) => task.running)?.id as string, 'KILL')
    expect((await flood.exit).signal).toBe('SIGKILL')
  })
})

describe('records of ended tasks', () => {
  it('are bounded in number and memory; the runner stays small', async () => {
    for (let round = 0; round < 40; round++) {
      await Promise.all(
        Array.from({ length: 10 }, () =>
          client.run({ id: fresh('many'), argv: sh('head -c 20000 /dev/zero') }),
        ),
      )
    }
    expect((await client.list()).length).toBeLessThanOrEqual(257)
    // 4 MiB of output, and fragmentation by concurrent processes.
    expect(await runner.rssKb()).toBeLessThan(10 * 1024)
    // The oldest record is gone, and its id is not run a second time.
    await expect(client.run({ id: 'many-1', argv: ['true'] })).resolves.toBeDefined()
  })
})
