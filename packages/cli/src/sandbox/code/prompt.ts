import { type AgentEvent, type AgentRun, runAgent } from '@sandkasten/opencode'
import { say } from '../../errors.ts'
import { cut, oneLine } from '../../format.ts'
import { invalid } from './options.ts'
import { directoryOf, type Place } from './place.ts'
import type { ReadyAgent } from './server.ts'

export interface PromptOptions {
  readonly prompt: string
  readonly sessionId?: string | undefined
  /** Print the answer as it comes. */
  readonly streams: boolean
  readonly onSession: (sessionId: string) => void
  readonly signal: AbortSignal
}

/** Runs one prompt. The answer goes to stdout, and a line for each tool to stderr. */
export async function runPrompt(
  { hold }: Place,
  agent: ReadyAgent,
  options: PromptOptions,
): Promise<AgentRun> {
  const { prompt, sessionId, streams, onSession, signal } = options
  const printer = new Printer()
  const onEvent = (event: AgentEvent) => {
    if (event.type === 'session') onSession(event.sessionId)
    if (event.type === 'tool' && event.status !== 'completed') {
      printer.endLine()
      const failed = event.status === 'error' ? ' failed' : ''
      say(`sandkasten: ${cut(oneLine(event.tool), 60)}${failed}`)
    }
    if (event.type === 'text' && streams) printer.print(event.text)
  }
  const stop = AbortSignal.any([signal, hold.signal])
  const run = await runAgent(hold.handle, agent.name, prompt, {
    ...agent.settings,
    cwd: directoryOf(hold),
    ...(agent.server === undefined ? {} : { server: agent.server }),
    sessionId,
    signal: stop,
    onEvent,
  })
  if (streams && printer.isEmpty) printer.print(run.text)
  printer.endLine()
  return run
}

const mostPrompt = 8 * 1024 * 1024

/** `-` reads stdin. */
export async function promptOf(given: string): Promise<string> {
  if (given !== '-') return given
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.byteLength
    if (length > mostPrompt)
      throw invalid('The prompt on stdin is larger than 8 MiB.', 'Put long material into a file.')
  }
  const text = Buffer.concat(chunks).toString('utf8')
  if (text.trim() === '')
    throw invalid('The prompt on stdin is empty.', 'For example: sandkasten code -p - < task.md')
  return text
}

/** Text of an agent comes from the sandbox, so it must not control the terminal. */
class Printer {
  #last = ''

  get isEmpty(): boolean {
    return this.#last === ''
  }

  print(text: string): void {
    const clean = text.replace(/[^\P{Cc}\n\t]/gu, '')
    if (clean === '') return
    this.#last = clean
    process.stdout.write(clean)
  }

  endLine(): void {
    if (this.#last !== '' && !this.#last.endsWith('\n')) this.print('\n')
  }
}
