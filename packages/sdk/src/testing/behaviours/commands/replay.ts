import type { ProcessEvent } from '../../../spec/index.ts'
import { equal, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import { GrowthMeter } from '../../memory-use.ts'
import { group } from '../../types.ts'

export const replay = group('output again and slowly', [
  {
    id: 'seq-without-gaps',
    name: 'Events are numbered from 1 without gaps, and the exit event is the last',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.flood(300_000))
      const reader = new EventReader(process)
      await reader.exit()
      equal(
        reader.events.map(({ seq }) => seq),
        reader.events.map((_, index) => index + 1),
        'numbers',
      )
      equal(reader.events.filter(({ type }) => type === 'exit').length, 1, 'number of exit events')
    },
  },
  {
    id: 'replay-from-start',
    name: 'Output can be read again from the beginning after the program has ended',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.flood(200_000))
      await process.wait()
      const [first, second] = [new EventReader(process), new EventReader(process)]
      await first.exit()
      await second.exit()
      equal(first.stdout.length, 200_000, 'length at the first reading')
      ok(first.stdout === second.stdout, 'The second reading differs from the first')
    },
  },
  {
    id: 'replay-after',
    name: 'output({ after: N }) resumes with event N + 1, and omits nothing',
    needs: ['stdin'],
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.relay(), { stdin: 'pipe' })
      const live = new EventReader(process)
      for (let line = 1; line <= 6; line += 1) {
        await process.writeStdin(`out line ${line}\n`)
        await live.until(`line ${line}\n`)
      }
      await process.closeStdin()
      await live.exit()
      for (const after of live.events.map(({ seq }) => seq)) {
        const again = new EventReader(process, { after })
        while (await again.next());
        equal(again.events.map(describe), live.events.slice(after).map(describe), `events after ${after}`)
      }
    },
  },
  {
    id: 'cut-and-continue',
    name: 'A reader that stops can resume later at its number without loss',
    needs: ['stdin'],
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.relay(), { stdin: 'pipe' })
      const first = new EventReader(process)
      await process.writeStdin('out first\n')
      await first.until('first\n')
      await first.stop()
      await process.writeStdin('out second\n')
      await process.closeStdin()
      const second = new EventReader(process, { after: first.events.at(-1)!.seq })
      await second.exit()
      equal(first.stdout + second.stdout, 'first\nsecond\n', 'what both read')
    },
  },
  {
    id: 'two-readers',
    name: 'Two concurrent readers both get everything',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.flood(400_000))
      const readers = [new EventReader(process), new EventReader(process)]
      await Promise.all(readers.map((reader) => reader.exit()))
      for (const reader of readers) equal(reader.stdout.length, 400_000, 'length of what a reader got')
    },
  },
  {
    id: 'gone',
    name: 'Reading dropped history throws gone, with the oldest number that is left',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.flood(4 * 1024 * 1024), {
        outputBufferBytes: 64 * 1024,
      })
      // The ring drops events because there is no reader.
      await t.eventually(async () => !(await process.status()).running, 'The program ends')
      const error = await rejects(new EventReader(process).next(), 'gone', 'reading from the beginning')
      const oldest = error.details.oldest
      ok(typeof oldest === 'number' && oldest > 1, `details.oldest is ${String(oldest)}`)
      const rest = new EventReader(process, { after: oldest - 1 })
      equal((await rest.next())?.seq, oldest, 'number of the oldest event that is left')
      equal((await rest.exit()).exitCode, 0, 'exitCode')
    },
  },
  {
    id: 'wait-after-gone',
    name: 'wait() after output was dropped returns the rest with truncated',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.flood(4 * 1024 * 1024), {
        outputBufferBytes: 64 * 1024,
      })
      await t.eventually(async () => !(await process.status()).running, 'The program ends')
      const result = await process.wait()
      equal([result.truncated, result.exitCode], [true, 0], 'truncated and exitCode')
      ok(result.stdout.endsWith('abcde\n'), `stdout ends with ${JSON.stringify(result.stdout.slice(-20))}`)
    },
  },
  {
    id: 'slow-reader-slows-program',
    name: 'A reader that does not read makes the program wait: no loss, and bounded memory',
    async run(t) {
      const sandbox = await t.sandbox()
      const marker = t.unique('flooded')
      const size = 3 * t.limits.floodBytes
      const meter = new GrowthMeter(t.limits.growthBytes)
      const gate = t.unique('gate')
      const process = await t.spawn(sandbox, t.commands.flood(size, marker, gate), {
        outputBufferBytes: 256 * 1024,
      })
      let seen = 0
      let at = 0
      // Starts reading before the first byte is written: without a reader, output may be dropped.
      const reader = process.output()[Symbol.asyncIterator]()
      const first = reader.next()
      await sandbox.files.writeFile(gate, '')
      for (let { value: event } = await first; event; { value: event } = await reader.next()) {
        if (event.type === 'exit') break
        if (event.type === 'stdout') checkPattern(event.data, seen)
        seen += event.data.byteLength
        // Other work continues meanwhile; the program must not finish before the reader.
        if (at < 20)
          equal(
            await sandbox.files.exists(marker),
            false,
            `the program had ended after ${seen} of ${size} bytes were read`,
          )
        at += 1
        meter.look()
      }
      equal(seen, size, 'bytes read')
      ok(!meter.complaint, String(meter.complaint))
    },
  },
  {
    id: 'streams-one-after-the-other',
    name: 'stdout() and stderr() can be read one after the other, although the output is larger than the buffer',
    async run(t) {
      const sandbox = await t.sandbox()
      const size = 1024 * 1024
      const spawn = () => t.spawn(sandbox, t.commands.floodBoth(size), { outputBufferBytes: 64 * 1024 })
      const read = async (stream: ReadableStream<Uint8Array>) =>
        new Uint8Array(await new Response(stream).arrayBuffer())
      const both = await spawn()
      const streams = [both.stdout(), both.stderr()] as const
      checkPattern(await read(streams[0]), 0, 2 * size)
      checkPattern(await read(streams[1]), 0, size)
      // The second stream is opened only when the first one has ended.
      const one = await spawn()
      checkPattern(await read(one.stdout()), 0, 2 * size)
      checkPattern(await read(one.stderr()), 0, size)
    },
  },
  {
    id: 'stream-opened-late',
    name: 'While only stdout() is read, the program waits when nothing reads its stderr(), which loses nothing',
    async run(t) {
      // More than is kept of a stream that nothing reads.
      const [size, errorSize] = [64 * 1024, 9 * 1024 * 1024]
      const process = await t.spawn(await t.sandbox(), t.commands.floodBoth(size, errorSize), {
        outputBufferBytes: 64 * 1024,
      })
      const stdout = process.stdout().getReader()
      let read = 0
      const reading = (async () => {
        for (let next = await stdout.read(); next.value; next = await stdout.read()) {
          checkPattern(next.value, read)
          read += next.value.byteLength
        }
      })()
      reading.catch(() => {})
      await Promise.race([t.eventually(async () => read >= size, 'stdout is read'), reading])
      // A program that does not wait ends in this time.
      for (let poll = 0; poll < 8; poll += 1)
        equal((await process.status()).running, true, 'whether the program still runs')
      let late = 0
      for await (const chunk of process.stderr()) {
        checkPattern(chunk, late)
        late += chunk.byteLength
      }
      await reading
      equal([read, late], [2 * size, errorSize], 'bytes of stdout and stderr')
    },
  },
  {
    id: 'wait-without-output',
    name: 'wait({ collect: false }) returns only how the process ended',
    async run(t) {
      const sandbox = await t.sandbox()
      const flood = await t.spawn(sandbox, t.commands.flood(1024 * 1024), { outputBufferBytes: 64 * 1024 })
      const { exitCode, signal, timedOut, durationMs, ...rest } = await flood.wait({ collect: false })
      equal([exitCode, signal, timedOut], [0, undefined, false], 'exitCode, signal and timedOut')
      ok(durationMs >= 0, `durationMs is ${durationMs}`)
      equal(Object.values(rest).filter((value) => value !== undefined).length, 0, 'number of other facts')
      const killed = await t.spawn(sandbox, t.commands.wait())
      const waiting = killed.wait({ collect: false })
      await killed.kill('SIGKILL')
      equal((await waiting).signal, 'SIGKILL', 'signal of a killed process')
      equal((await killed.wait({ collect: false })).exitCode, 137, 'exitCode, after the end')
      const running = await t.spawn(sandbox, t.commands.wait())
      const { commandTimeoutMs } = t.limits
      await rejects(running.wait({ collect: false, timeoutMs: commandTimeoutMs }), 'timeout', 'wait()')
    },
  },
  {
    id: 'wait-twice',
    name: 'wait() can be called twice, also concurrently, with the same result',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.print('once'))
      const results = [...(await Promise.all([process.wait(), process.wait()])), await process.wait()]
      for (const result of results)
        equal([result.exitCode, result.stdout], [0, 'once'], 'exitCode and stdout')
    },
  },
  {
    id: 'output-abort',
    name: 'Cancelling a reader ends it with aborted, and the program keeps running',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.wait())
      const controller = new AbortController()
      const reader = new EventReader(process, { signal: controller.signal })
      await reader.until('ready\n')
      const next = reader.next()
      controller.abort()
      await rejects(next, 'aborted', 'the reading')
      equal((await process.status()).running, true, 'running')
    },
  },
])

function describe(event: ProcessEvent): unknown[] {
  return event.type === 'exit'
    ? [event.seq, 'exit', event.exitCode]
    : [event.seq, event.type, new TextDecoder().decode(event.data)]
}

const pattern = new TextEncoder().encode('0123456789abcde\n')

function checkPattern(data: Uint8Array, from: number, size = data.byteLength): void {
  equal(data.byteLength, size, 'number of bytes')
  for (let at = 0; at < data.byteLength; at += 1) {
    if (data[at] !== pattern[(from + at) % 16])
      throw new Error(`byte ${from + at} of the output is wrong: something was lost or repeated`)
  }
}
