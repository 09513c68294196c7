import { randomUUID } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import type { ServerEvent } from '../../../http/event-streams.ts'
import type { LiveCommand } from '../../../sessions/index.ts'
import { outputOf } from '../../shared/output.ts'
import { notSupported } from '../../shared/request.ts'
import type { Call, Entry } from '../entry.ts'
import { event, failure } from './execution-events.ts'
import { pythonDriver } from './python-driver.ts'

/** Longer output lines are not frames of our driver. */
const longestFrame = 8_388_608

/**
 * Starts an interpreter that keeps its variables between requests. It is a command of the session; the returned id
 * identifies it.
 */
export async function startPython({ services }: Entry, { caller, id }: Call): Promise<string> {
  const contextId = randomUUID()
  const request = {
    kind: 'run',
    cmd: 'python3',
    args: ['-c', pythonDriver],
    stdin: 'pipe',
    detached: true,
    maxOutputBytes: 1,
  } as const
  await services.sessions.commands
    .start(caller, id, contextId, request, { wake: false })
    .catch((error: unknown) => {
      throw SandboxError.is(error, 'command_not_found')
        ? notSupported('Python', 'There is no python3 in the image of this sandbox.')
        : error
    })
  return contextId
}

/** Runs code in the interpreter. Requests take turns. */
export async function* runPython(
  call: Call,
  found: LiveCommand,
  code: string,
  ending: AbortSignal,
): AsyncGenerator<ServerEvent> {
  const reading = readings.get(found) ?? { after: 0, turn: Promise.resolve() }
  readings.set(found, reading)
  const before = reading.turn
  const { promise, resolve: over } = Promise.withResolvers<void>()
  reading.turn = before.then(() => promise)
  let runs = false
  try {
    yield event('init', { text: found.row.exec_id })
    await before
    if (ending.aborted) return
    const id = randomUUID()
    runs = true
    await abandoned(found.write!(Buffer.from(`${JSON.stringify({ id, code })}\n`)), ending)
    for await (const frame of framesOf(found, reading, ending)) {
      if (frame.id !== id) continue
      const { type } = frame
      if (type === 'done') {
        runs = false
        yield event('execution_complete', { execution_time: frame.execution_time })
        return
      }
      if (type === 'stdout' || type === 'stderr') yield event(type, { text: frame.text })
      if (type === 'execution_count') yield event(type, { execution_count: frame.execution_count })
      if (type === 'result') yield event(type, { results: frame.results })
      if (type === 'error') yield event(type, { error: frame.error })
    }
    yield failure('KernelDied', 'The interpreter has ended.', [])
  } finally {
    // The client disconnected: interrupt its code before the next caller's turn begins.
    if (runs && call.signal.aborted) await found.kill('SIGINT').catch(() => {})
    over()
  }
}

/** The read position and the queue of each interpreter. */
const readings = new WeakMap<LiveCommand, { after: number; turn: Promise<void> }>()

const text = z.string()
const frame = z.discriminatedUnion('type', [
  z.object({ id: text, type: z.enum(['stdout', 'stderr']), text }),
  z.object({ id: text, type: z.literal('execution_count'), execution_count: z.int() }),
  z.object({ id: text, type: z.literal('result'), results: z.record(text, text) }),
  z.object({
    id: text,
    type: z.literal('error'),
    error: z.object({ ename: text, evalue: text, traceback: z.array(text) }),
  }),
  z.object({ id: text, type: z.literal('done'), execution_time: z.number() }),
])

/** Parses frames. The sandbox is not trusted, so each frame is validated. */
async function* framesOf(
  found: LiveCommand,
  reading: { after: number },
  ending: AbortSignal,
): AsyncGenerator<z.infer<typeof frame>> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const one of outputOf(found, ending, reading.after)) {
    if (one.type === 'exit') return
    if (one.type === 'stderr') continue
    const lines = decoder.decode(one.data, { stream: true }).split('\n')
    lines[0] = rest + lines[0]
    rest = lines.pop()!
    if (rest.length > longestFrame)
      throw new SandboxError('provider_error', 'The interpreter sent unexpected output.')
    // The next reader can begin at the end of a line.
    if (rest === '') reading.after = one.seq
    for (const line of lines) {
      const known = frame.safeParse(jsonOf(line))
      if (known.success) yield known.data
    }
  }
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

/** Stops waiting for an interpreter that does not read its input. */
async function abandoned(work: Promise<void>, ending: AbortSignal): Promise<void> {
  const gone = new Promise<void>((resolve) =>
    ending.addEventListener('abort', () => resolve(), { once: true }),
  )
  work.catch(() => {})
  await Promise.race([work, gone])
}
