import { equal, excludes, includes, ok, sameBytes } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import { group } from '../../types.ts'

const allBytes = Uint8Array.from({ length: 256 }, (_, byte) => byte)

export const output = group('output', [
  {
    id: 'stdout-exact',
    name: 'stdout is exactly what the program wrote, without added or removed newlines',
    async run(t) {
      const sandbox = await t.sandbox()
      for (const text of ['plain', 'line\n', '\n\n', '  spaces  ', 'tab\tand\r\ncarriage return']) {
        equal((await t.run(sandbox, t.commands.print(text))).stdout, text, 'stdout')
      }
    },
  },
  {
    id: 'no-output',
    name: 'A program without output returns two empty strings',
    async run(t) {
      const { stdout, stderr, truncated } = await t.run(await t.sandbox(), t.commands.exit(0))
      equal([stdout, stderr, truncated], ['', '', false], 'stdout, stderr and truncated')
    },
  },
  {
    id: 'stderr-apart',
    name: 'stderr is not mixed into stdout',
    async run(t) {
      const { stdout, stderr } = await t.run(await t.sandbox(), t.commands.printError('problem'))
      equal([stdout, stderr], ['', 'problem'], 'stdout and stderr')
    },
  },
  {
    id: 'both-streams',
    name: 'A program that writes to both streams returns each of them complete and in order',
    async run(t) {
      const lines = Array.from({ length: 50 }, (_, index) => `out o${index}\nerr e${index}\n`).join('')
      const { stdout, stderr } = await t.run(await t.sandbox(), t.commands.relay(), { stdin: lines })
      equal(stdout, Array.from({ length: 50 }, (_, index) => `o${index}\n`).join(''), 'stdout')
      equal(stderr, Array.from({ length: 50 }, (_, index) => `e${index}\n`).join(''), 'stderr')
    },
  },
  {
    id: 'unicode-output',
    name: 'Text outside ASCII arrives unchanged',
    async run(t) {
      const text = 'Grüße, 你好, 🏖️ sand, \u{1F1E9}\u{1F1EA}, e\u0301'
      equal((await t.run(await t.sandbox(), t.commands.print(text))).stdout, text, 'stdout')
    },
  },
  {
    id: 'byte-order-mark',
    name: 'A byte order mark in the output is kept',
    async run(t) {
      equal((await t.run(await t.sandbox(), t.commands.print('\uFEFFmark'))).stdout, '\uFEFFmark', 'stdout')
    },
  },
  {
    id: 'split-character-result',
    name: 'A character that arrives in two chunks is complete in the result and in onStdout',
    async run(t) {
      const sandbox = await t.sandbox()
      const gate = t.unique('gate')
      const pieces: string[] = []
      let opened: Promise<void> | undefined
      const result = await t.run(sandbox, t.commands.splitCharacter(gate), {
        onStdout: (text) => {
          pieces.push(text)
          opened ??= sandbox.files.writeFile(gate, '')
        },
      })
      await opened
      equal(result.stdout, 'aéz', 'stdout')
      equal(pieces.join(''), 'aéz', 'what onStdout was told')
      excludes(pieces.join('|'), '\uFFFD', 'what onStdout was told')
    },
  },
  {
    id: 'binary-events',
    name: 'Every byte value passes through spawn unchanged',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.bytes())
      const chunks: number[] = []
      for await (const event of process.output()) if (event.type === 'stdout') chunks.push(...event.data)
      sameBytes(Uint8Array.from(chunks), allBytes, 'stdout')
    },
  },
  {
    id: 'binary-stream',
    name: 'process.stdout() streams the same bytes, and stderr() none of them',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.bytes())
      sameBytes(new Uint8Array(await new Response(process.stdout()).arrayBuffer()), allBytes, 'stdout()')
      equal(await new Response(process.stderr()).text(), '', 'stderr()')
    },
  },
  {
    id: 'big-output-whole',
    name: 'A megabyte of output is complete if the limit allows it',
    async run(t) {
      const size = 1024 * 1024
      const { stdout, truncated } = await t.run(await t.sandbox(), t.commands.flood(size))
      equal(stdout.length, size, 'length of stdout')
      ok(stdout === '0123456789abcde\n'.repeat(size / 16), 'The output differs from what was printed')
      equal(truncated, false, 'truncated')
    },
  },
  {
    id: 'truncated',
    name: 'Output beyond the limit keeps its head and tail, and the result has truncated',
    async run(t) {
      const { stdout, truncated, exitCode } = await t.run(
        await t.sandbox(),
        t.commands.flood(t.limits.floodBytes + 7),
      )
      equal([truncated, exitCode], [true, 0], 'truncated and exitCode')
      ok(
        stdout.length < 5 * 1024 * 1024,
        `stdout has ${stdout.length} characters, more than the default limit of 4 MiB`,
      )
      ok(stdout.startsWith('0123456789abcde\n'), `stdout begins with ${JSON.stringify(stdout.slice(0, 20))}`)
      ok(stdout.endsWith('abcde\n0123456'), `stdout ends with ${JSON.stringify(stdout.slice(-20))}`)
      includes(stdout.slice(2 * 1024 * 1024 - 100, 2 * 1024 * 1024 + 200), 'bytes left out', 'The middle')
    },
  },
  {
    id: 'truncated-small',
    name: 'maxOutputBytes applies to each stream, and characters are not split',
    async run(t) {
      const sandbox = await t.sandbox()
      const { stdout, truncated } = await t.run(sandbox, t.commands.print('é'.repeat(500)), {
        maxOutputBytes: 101,
      })
      equal(truncated, true, 'truncated')
      ok(/^é+\n\[… \d+ bytes left out …\]\né+$/.test(stdout), `stdout is ${JSON.stringify(stdout)}`)
      const exact = await t.run(sandbox, t.commands.print('x'.repeat(100)), { maxOutputBytes: 100 })
      equal(
        [exact.stdout.length, exact.truncated],
        [100, false],
        'Output of exactly the limit: length and truncated',
      )
    },
  },
  {
    id: 'stream-before-end',
    name: 'onStdout is called while the program runs',
    async run(t) {
      const sandbox = await t.sandbox()
      const gate = t.unique('gate')
      let heard = ''
      let opened: Promise<void> | undefined
      const result = await t.run(sandbox, t.commands.gate(gate), {
        onStdout: (text) => {
          heard += text
          // The program continues only when this file exists: buffered output would block both.
          if (heard.includes('before\n')) opened ??= sandbox.files.writeFile(gate, '')
        },
      })
      await opened
      equal(
        [heard, result.stdout],
        ['before\nafter\n', 'before\nafter\n'],
        'what onStdout was told, and stdout',
      )
    },
  },
  {
    id: 'stderr-listener',
    name: 'onStderr receives only the output on stderr',
    async run(t) {
      const heard = { out: '', err: '' }
      await t.run(await t.sandbox(), t.commands.relay(), {
        stdin: 'out a\nerr b\nout c\n',
        onStdout: (text) => {
          heard.out += text
        },
        onStderr: (text) => {
          heard.err += text
        },
      })
      equal(heard, { out: 'a\nc\n', err: 'b\n' }, 'what the listeners were told')
    },
  },
  {
    id: 'listener-sees-all',
    name: 'Listeners receive all output, also what the result omits',
    async run(t) {
      let length = 0
      const size = 2 * 1024 * 1024
      const { truncated } = await t.run(await t.sandbox(), t.commands.flood(size), {
        maxOutputBytes: 1000,
        onStdout: (text) => {
          length += text.length
        },
      })
      equal([length, truncated], [size, true], 'characters heard, and truncated')
    },
  },
  {
    id: 'listener-throws',
    name: 'A listener that throws ends the command and its call, and the sandbox still works',
    async run(t) {
      const sandbox = await t.sandbox()
      let error: unknown
      try {
        await t.run(sandbox, t.commands.wait(), {
          onStdout() {
            throw new Error('the listener broke')
          },
        })
      } catch (thrown) {
        error = thrown
      }
      includes(String(error), 'the listener broke', 'What the call rejected with')
      equal((await t.run(sandbox, t.commands.print('on'))).stdout, 'on', 'The next command')
    },
  },
  {
    id: 'spawn-listeners',
    name: 'onStdout and onStderr of spawn receive the output as text, without split characters',
    async run(t) {
      const sandbox = await t.sandbox()
      const gate = t.unique('gate')
      const pieces: string[] = []
      let opened: Promise<void> | undefined
      const split = await t.spawn(sandbox, t.commands.splitCharacter(gate), {
        onStdout: (text) => {
          pieces.push(text)
          opened ??= sandbox.files.writeFile(gate, '')
        },
      })
      await split.wait()
      await opened
      equal(pieces.join(''), 'aéz', 'what onStdout was told before wait() resolved')
      excludes(pieces.join('|'), '\uFFFD', 'what onStdout was told')
      const heard = { out: '', err: '' }
      const both = await t.spawn(sandbox, t.commands.relay(), {
        stdin: 'out a\nerr b\nout c\n',
        onStdout: (text) => {
          heard.out += text
        },
        onStderr: (text) => {
          heard.err += text
        },
      })
      const { stdout, stderr } = await both.wait()
      equal([heard, stdout, stderr], [{ out: 'a\nc\n', err: 'b\n' }, 'a\nc\n', 'b\n'], 'heard and collected')
    },
  },
  {
    id: 'spawn-listener-throws',
    name: 'A listener of spawn that throws ends the program, and wait() rejects with its error',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.wait(), {
        onStdout() {
          throw new Error('the listener broke')
        },
      })
      const error = await process.wait().catch((thrown: unknown) => thrown)
      includes(String(error), 'the listener broke', 'What wait() rejected with')
      equal((await process.status()).running, false, 'running')
    },
  },
  {
    id: 'merged-order',
    name: "With output: 'merged', the result has both streams in the order in which the program wrote them",
    needs: ['mergedOutput'],
    async run(t) {
      const sandbox = await t.sandbox()
      const stdin = Array.from({ length: 200 }, (_, index) => `out o${index}\nerr e${index}\n`).join('')
      const { stdout, stderr } = await t.run(sandbox, t.commands.relay(), { stdin, output: 'merged' })
      equal(stdout, stdin.replace(/^(out|err) /gm, ''), 'stdout')
      equal(stderr, '', 'stderr')
      const apart = await t.run(sandbox, t.commands.printError('problem'), { output: 'separate' })
      equal([apart.stdout, apart.stderr], ['', 'problem'], "stdout and stderr with output: 'separate'")
    },
  },
  {
    id: 'merged-spawn',
    name: "With output: 'merged', all events of a process are stdout, also if it is detached",
    needs: ['mergedOutput'],
    async run(t) {
      const sandbox = await t.sandbox()
      for (const detached of [false, true]) {
        const stdin = Array.from({ length: 50 }, (_, index) => `err e${index}\nout o${index}\n`).join('')
        const process = await t.spawn(sandbox, t.commands.relay(), { stdin, output: 'merged', detached })
        const reader = new EventReader(process)
        await reader.exit()
        equal(reader.stdout, stdin.replace(/^(out|err) /gm, ''), `stdout, detached: ${detached}`)
        equal(reader.stderr, '', `stderr, detached: ${detached}`)
        equal(await new Response(process.stderr()).text(), '', `stderr(), detached: ${detached}`)
      }
    },
  },
  {
    id: 'ordered-events',
    name: 'Events of separate streams are in the order in which the program wrote them',
    needs: ['orderedOutput'],
    async run(t) {
      const stdin = Array.from({ length: 200 }, (_, index) => `out o${index}\nerr e${index}\n`).join('')
      const process = await t.spawn(await t.sandbox(), t.commands.relay(), { stdin })
      let seen = ''
      for await (const event of process.output())
        if (event.type !== 'exit') seen += new TextDecoder().decode(event.data)
      equal(seen, stdin.replace(/^(out|err) /gm, ''), 'the output of all events')
    },
  },
  {
    id: 'events-in-order',
    name: 'Events of both streams arrive in order',
    needs: ['stdin'],
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.relay(), { stdin: 'pipe' })
      const reader = new EventReader(process)
      for (const [stream, text] of [
        ['stdout', '1'],
        ['stderr', '2'],
        ['stdout', '3'],
        ['stderr', '4'],
      ] as const) {
        await process.writeStdin(`${stream === 'stdout' ? 'out' : 'err'} ${text}\n`)
        await reader.until(`${text}\n`, stream)
      }
      await process.closeStdin()
      await reader.exit()
      equal(
        reader.events.map(({ type }) => type),
        ['stdout', 'stderr', 'stdout', 'stderr', 'exit'],
        'types of the events',
      )
    },
  },
])
