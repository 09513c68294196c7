import { Agent, request } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

export class DockerApi {
  readonly #agent = new Agent({ keepAlive: true })
  readonly #socketPath: string

  constructor(socketPath: string) {
    this.#socketPath = socketPath
  }

  /** The body of the response. Throws unless the status is a success. */
  async call(
    method: string,
    path: string,
    body?: object | Readable,
    type = 'application/json',
  ): Promise<string> {
    let text = ''
    for await (const chunk of await this.open(method, path, body, type)) text += String(chunk)
    return text
  }

  async json<T>(method: string, path: string, body?: object): Promise<T> {
    return JSON.parse(await this.call(method, path, body)) as T
  }

  async open(
    method: string,
    path: string,
    body?: object | Readable,
    type = 'application/json',
  ): Promise<Readable> {
    const streamed = body !== undefined && Symbol.asyncIterator in body
    const text = body === undefined || streamed ? undefined : JSON.stringify(body)
    const headers = {
      ...(body === undefined ? {} : { 'content-type': type }),
      ...(text === undefined ? {} : { 'content-length': Buffer.byteLength(text) }),
    }
    const call = request({ socketPath: this.#socketPath, agent: this.#agent, method, path, headers })
    const answered = new Promise<Readable & { statusCode?: number }>((resolve, reject) => {
      call.on('response', resolve)
      call.on('error', reject)
    })
    if (streamed) await pipeline(body as Readable, call)
    else call.end(text)
    const response = await answered
    const { statusCode = 0 } = response
    if (statusCode >= 200 && statusCode < 300) return response
    let message = ''
    for await (const chunk of response) message += String(chunk)
    throw new Error(`docker ${method} ${path}: ${statusCode} ${message.trim()}`)
  }

  close(): void {
    this.#agent.destroy()
  }
}
