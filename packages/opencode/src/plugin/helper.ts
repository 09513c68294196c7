import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline'
import { type HelperLine, type HelperMethods, type HelperRequest, protocolVersion } from './protocol.ts'

export type Notice = Extract<HelperLine, { notice: string }>

interface Running {
  readonly child: ChildProcessWithoutNullStreams
  readonly waiting: Map<number, PromiseWithResolvers<unknown>>
  readonly ready: Promise<unknown>
}

/** Before this, a helper has not started properly, so its last lines say why. */
const tailLength = 2000

/**
 * The process `sandkasten workspaces`, which has the registry and the credentials of providers. It is started with the
 * first call, ends with this process, and is started again if it ended.
 */
export class Helper {
  readonly #command: readonly string[]
  /** Opens the addresses of workspaces. Neither it nor another secret is an argument. */
  readonly #token = randomBytes(24).toString('base64url')
  #port: number | undefined
  #running: Running | undefined
  #id = 0
  onNotice: (notice: Notice) => void = () => {}

  constructor(command: readonly string[]) {
    this.#command = command
  }

  async call<Method extends keyof HelperMethods>(
    method: Method,
    params: Parameters<HelperMethods[Method]>[0],
  ): Promise<ReturnType<HelperMethods[Method]>> {
    this.#running ??= this.#start()
    const running = this.#running
    await running.ready
    return (await this.#ask(running, method, params)) as ReturnType<HelperMethods[Method]>
  }

  #start(): Running {
    const [program, ...args] = this.#command
    const child = spawn(program!, [...args, 'workspaces'], { stdio: 'pipe' })
    const waiting: Running['waiting'] = new Map()
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-tailLength)
    })
    createInterface(child.stdout).on('line', (line) => this.#hear(waiting, line))
    const end = (error: Error) => {
      if (this.#running === running) this.#running = undefined
      for (const { reject } of waiting.values()) reject(error)
      waiting.clear()
    }
    child.once('error', (error) => end(this.#notStarted(error)))
    child.once('close', () => end(new Error(`sandkasten has ended. ${said.trim()}`.trim())))
    // A write to a helper that has ended fails, and its end is already reported.
    child.stdin.on('error', () => {})
    child.unref()
    const started = { child, waiting }
    const hello = this.#ask(started, 'hello', {
      version: protocolVersion,
      token: this.#token,
      port: this.#port,
    })
    const ready = hello.then((answer) => {
      this.#port = (answer as { port: number }).port
    })
    const running: Running = { ...started, ready }
    ready.catch(() => child.kill())
    return running
  }

  #ask(
    { child, waiting }: Pick<Running, 'child' | 'waiting'>,
    method: keyof HelperMethods,
    params: unknown,
  ): Promise<unknown> {
    this.#id += 1
    const request: HelperRequest = { id: this.#id, method, params }
    const answer = Promise.withResolvers<unknown>()
    waiting.set(request.id, answer)
    child.stdin.write(`${JSON.stringify(request)}\n`)
    return answer.promise
  }

  #hear(waiting: Running['waiting'], text: string): void {
    const line = JSON.parse(text) as HelperLine
    if ('notice' in line) return this.onNotice(line)
    const answer = waiting.get(line.id)
    waiting.delete(line.id)
    if ('error' in line) {
      const { message, hint } = line.error
      answer?.reject(new Error(hint === undefined ? message : `${message} ${hint}`))
    } else answer?.resolve(line.result)
  }

  #notStarted(error: NodeJS.ErrnoException): Error {
    const [program] = this.#command
    if (error.code !== 'ENOENT') return new Error(`${program} does not start: ${error.message}`)
    return new Error(
      `The program “${program}” is not installed. Run npm install --global sandkasten, or set \`command\` in the options of the plugin.`,
    )
  }
}

const helpers = new Map<string, Helper>()

/** One for all projects of this process: opencode loads the plugin again for each of them. */
export function helperOf(command: readonly string[]): Helper {
  const key = JSON.stringify(command)
  const helper = helpers.get(key) ?? new Helper(command)
  helpers.set(key, helper)
  return helper
}
