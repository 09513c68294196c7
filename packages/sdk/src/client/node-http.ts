export interface NodeRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export interface NodeResponse {
  readonly status: number
  headers(): Array<[name: string, value: string]>
}

/** The part of Node's `IncomingMessage` that this file uses. */
interface IncomingMessage {
  readonly statusCode?: number | undefined
  readonly rawHeaders: string[]
  /** The whole response has arrived. */
  readonly complete: boolean
  setEncoding(encoding: 'utf8'): unknown
  on(event: 'data', listener: (chunk: string) => void): unknown
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown
  on(event: 'end' | 'close', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  pause(): unknown
  resume(): unknown
  destroy(): unknown
}

/** `path` continues the base URL. */
export interface NodeHttp {
  text(path: string, request: NodeRequest): Promise<NodeResponse & { readonly text: string }>
  /** The body must be read or left early; leaving it closes the connection. */
  download(
    path: string,
    request: NodeRequest,
  ): Promise<NodeResponse & { readonly body: AsyncIterable<Uint8Array> }>
}

const blockBytes = 262_144

/**
 * Plain HTTP in Node, with Node's own client and parser. Undefined in other runtimes, for TLS and with a proxy: use
 * `fetch` there, which takes half a millisecond longer for each request.
 *
 * `fetch` and `node:http` allocate 64 KiB for every read of a socket, which takes most of the time of a large download.
 * For downloads, all reads of a connection share one large block, from which Node's parser copies the body. Modules of
 * Node are looked up at run time, so bundles for browsers do not contain them.
 */
export function nodeHttp(baseUrl: string): NodeHttp | undefined {
  const { process } = globalThis
  if (!baseUrl.startsWith('http:') || !process?.versions?.node || process.env.NODE_USE_ENV_PROXY)
    return undefined
  const http = process.getBuiltinModule?.('node:http')
  const net = process.getBuiltinModule?.('node:net')
  const stream = process.getBuiltinModule?.('node:stream')
  const urls = process.getBuiltinModule?.('node:url')
  if (!http || !net || !stream || !urls) return undefined
  // Node would parse a URL for every request.
  const base = new URL(baseUrl)
  const { hostname: host, port } = urls.urlToHttpOptions(base)
  const prefix = base.pathname.replace(/\/$/, '')
  const agent = new http.Agent({ keepAlive: true })
  const wide = new http.Agent({ keepAlive: true })
  Object.assign(wide, { createConnection: (to: { host: string; port: number }) => wideConnection(to) })
  const send = (path: string, { body, ...request }: NodeRequest, connections: typeof agent) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const options = { ...request, host, port, path: prefix + path, agent: connections }
      http.request(options, resolve).on('error', reject).end(body)
    })
  return {
    async text(path, request) {
      const response = await send(path, request, agent)
      return { ...headOf(response), text: await textOf(response) }
    },
    async download(path, request) {
      const response = await send(path, request, wide)
      return { ...headOf(response), body: chunksOf(response) }
    },
  }

  /** A connection that is not a `net.Socket`, so that the parser gets the bytes from us and not from the socket. */
  function wideConnection({ host, port }: { host: string; port: number }) {
    let block = new Uint8Array(blockBytes)
    const socket = net!.connect({
      host,
      port,
      noDelay: true,
      onread: {
        buffer: () => block,
        callback: (size, memory) => {
          const goOn = connection.push(memory.subarray(0, size))
          // The parser is paused, so the stream still holds this block.
          if (connection.readableLength > 0) block = new Uint8Array(blockBytes)
          return goOn
        },
      },
    })
    const connection = new stream!.Duplex({
      readableHighWaterMark: blockBytes,
      read: () => void socket.resume(),
      write: (chunk, encoding, done) => void socket.write(chunk, encoding, done),
      final: (done) => void socket.end(done),
      destroy: (error, done) => {
        socket.destroy()
        done(error)
      },
    })
    socket.on('error', (error) => connection.destroy(error))
    socket.on('close', () => connection.push(null))
    // The agent sets these on idle connections. An idle one must not keep the process alive.
    return Object.assign(connection, {
      ref: () => socket.ref(),
      unref: () => socket.unref(),
      setKeepAlive: () => connection,
      setNoDelay: () => connection,
      setTimeout: () => connection,
    })
  }
}

function headOf({ statusCode: status = 0, rawHeaders }: IncomingMessage): NodeResponse {
  const headers = () =>
    rawHeaders.flatMap(
      (name, at): Array<[string, string]> => (at % 2 === 0 ? [[name, rawHeaders[at + 1]!]] : []),
    )
  return { status, headers }
}

function textOf(response: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    response.setEncoding('utf8')
    response.on('data', (chunk: string) => {
      text += chunk
    })
    response.on('end', () => resolve(text))
    response.on('error', reject)
    response.on('close', () => {
      if (!response.complete) reject(new Error('the connection closed within the response'))
    })
  })
}

/** The chunks of a response, without joining them. Pauses the response while the consumer is slower. */
function chunksOf(response: IncomingMessage): AsyncGenerator<Uint8Array> {
  const queue: Uint8Array[] = []
  let queued = 0
  let ended = false
  let failure: { error: unknown } | undefined
  let wake: (() => void) | undefined
  response.on('data', (chunk: Uint8Array) => {
    // Today's parser copies. If a later one returns a part of the block, later reads must not change it.
    queue.push(chunk.buffer.byteLength === blockBytes ? new Uint8Array(chunk) : chunk)
    queued += chunk.length
    if (queued > blockBytes) response.pause()
    wake?.()
  })
  response.on('end', () => {
    ended = true
    wake?.()
  })
  response.on('error', (error) => {
    failure ??= { error }
    wake?.()
  })
  response.on('close', () => {
    if (!ended) failure ??= { error: new Error('the connection closed within the response') }
    wake?.()
  })
  async function* read(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        const chunk = queue.shift()
        if (chunk) {
          queued -= chunk.length
          if (queued <= blockBytes / 2) response.resume()
          yield chunk
        } else if (ended) return
        else if (failure) throw failure.error
        else
          await new Promise<void>((resolve) => {
            wake = resolve
          })
      }
    } finally {
      if (!ended) response.destroy()
    }
  }
  return read()
}
