import { equal, ok, rejects, sameBytes } from '../../assert.ts'
import { EventReader, settledBefore } from '../../events.ts'
import { group } from '../../types.ts'

export const input = group('stdin', [
  {
    id: 'stdin-eof',
    name: 'Without input a program sees end-of-file immediately',
    async run(t) {
      const sandbox = await t.sandbox()
      equal((await t.run(sandbox, t.commands.copyInput())).stdout, '', 'stdout')
      const process = await t.spawn(sandbox, t.commands.copyInput())
      equal((await process.wait()).exitCode, 0, 'exitCode of a spawned one')
    },
  },
  {
    id: 'stdin-text',
    name: 'A string given as stdin is the program’s input, followed by end-of-file',
    async run(t) {
      const text = 'first\nsecond ü 🏖️ without newline'
      equal((await t.run(await t.sandbox(), t.commands.copyInput(), { stdin: text })).stdout, text, 'stdout')
    },
  },
  {
    id: 'stdin-empty-text',
    name: 'An empty string as stdin is end-of-file',
    async run(t) {
      equal((await t.run(await t.sandbox(), t.commands.copyInput(), { stdin: '' })).stdout, '', 'stdout')
    },
  },
  {
    id: 'stdin-bytes',
    name: 'Bytes given as stdin arrive unchanged',
    async run(t) {
      const bytes = Uint8Array.from({ length: 2048 }, (_, index) => index & 0xff)
      const process = await t.spawn(await t.sandbox(), t.commands.copyInput(), { stdin: bytes })
      sameBytes(new Uint8Array(await new Response(process.stdout()).arrayBuffer()), bytes, 'stdout')
    },
  },
  {
    id: 'stdin-iterable',
    name: 'An async iterable given as stdin is sent chunk by chunk',
    async run(t) {
      async function* pieces() {
        yield 'one,'
        yield new TextEncoder().encode('two,')
        yield 'three'
      }
      equal(
        (await t.run(await t.sandbox(), t.commands.copyInput(), { stdin: pieces() })).stdout,
        'one,two,three',
        'stdout',
      )
    },
  },
  {
    id: 'stdin-web-stream',
    name: 'A ReadableStream given as stdin is sent completely',
    async run(t) {
      const stdin = new Response('from a stream').body!
      equal(
        (await t.run(await t.sandbox(), t.commands.copyInput(), { stdin })).stdout,
        'from a stream',
        'stdout',
      )
    },
  },
  {
    id: 'stdin-big',
    name: 'Eight megabytes are sent and received unchanged',
    async run(t) {
      const size = 8 * 1024 * 1024
      const block = new TextEncoder().encode('0123456789abcde\n'.repeat(4096))
      async function* blocks() {
        for (let sent = 0; sent < size; sent += block.byteLength) yield block
      }
      const process = await t.spawn(await t.sandbox(), t.commands.copyInput(), { stdin: blocks() })
      let length = 0
      for await (const event of process.output()) if (event.type === 'stdout') length += event.data.byteLength
      equal(length, size, 'bytes that came out')
    },
  },
  {
    id: 'stdin-not-read',
    name: 'A program that ends without reading its input is not a failure, and the source is closed',
    async run(t) {
      let released = false
      async function* endless() {
        try {
          for (;;) yield new Uint8Array(64 * 1024)
        } finally {
          released = true
        }
      }
      const result = await t.run(await t.sandbox(), t.commands.exit(5), { stdin: endless() })
      equal(result.exitCode, 5, 'exitCode')
      await t.eventually(async () => released, 'The source is closed')
    },
  },
  {
    id: 'stdin-pipe',
    name: 'With stdin: pipe a program receives input and answers while it runs',
    needs: ['stdin'],
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.copyInput(), { stdin: 'pipe' })
      const reader = new EventReader(process)
      await process.writeStdin('ping\n')
      await reader.until('ping\n')
      await process.writeStdin(new TextEncoder().encode('pong\n'))
      await reader.until('pong\n')
      await process.closeStdin()
      equal((await reader.exit()).exitCode, 0, 'exitCode')
      equal(reader.stdout, 'ping\npong\n', 'stdout')
    },
  },
  {
    id: 'stdin-after-close',
    name: 'Writing after closeStdin() throws stdin_closed',
    needs: ['stdin'],
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.wait(), { stdin: 'pipe' })
      await process.closeStdin()
      await rejects(process.writeStdin('late'), 'stdin_closed', 'writeStdin()')
    },
  },
  {
    id: 'stdin-after-exit',
    name: 'Writing to an ended program throws stdin_closed',
    needs: ['stdin'],
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.exit(0), { stdin: 'pipe' })
      await process.wait()
      await rejects(process.writeStdin('late'), 'stdin_closed', 'writeStdin()')
    },
  },
  {
    id: 'stdin-not-piped',
    name: 'Writing to a program that was started without a pipe throws stdin_closed',
    needs: ['stdin'],
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.wait())
      await rejects(process.writeStdin('x'), 'stdin_closed', 'writeStdin()')
    },
  },
  {
    id: 'stdin-backpressure',
    name: 'writeStdin() waits while the program does not read, and continues when it does',
    needs: ['stdin'],
    async run(t) {
      const sandbox = await t.sandbox()
      const process = await t.spawn(sandbox, t.commands.wait(), { stdin: 'pipe' })
      const reader = new EventReader(process)
      await reader.until('ready\n')
      // More than any pipe holds. The program never reads, so the write can only end when the program dies.
      const writing = process.writeStdin(new Uint8Array(16 * 1024 * 1024)).then(
        () => 'done',
        (error: { code?: string }) => error.code,
      )
      const done = await settledBefore(writing, t.run(sandbox, t.commands.exit(0)))
      ok(!done, 'writeStdin() of 16 MiB was over although the program reads nothing')
      await process.kill('SIGKILL')
      equal(await writing, 'stdin_closed', 'how the write ended')
      equal((await reader.exit()).signal, 'SIGKILL', 'signal')
    },
  },
])
