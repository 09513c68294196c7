/** A response in Node. The body must be read or left early; leaving it closes the connection. */
export interface NodeResponse {
  readonly status: number
  readonly headers: Array<[name: string, value: string]>
  readonly body: AsyncIterable<Uint8Array>
}

export interface NodeRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** The response may be large. */
  readonly isDownload?: boolean
}

export type NodeHttp = (url: string, request: NodeRequest) => Promise<NodeResponse>

const blockBytes = 524_288

/**
 * Plain HTTP in Node, with Node's own client and parser. Undefined in other runtimes, for TLS and with a proxy: use
 * `fetch` there, which takes half a millisecond longer for each request.
 *
 * `fetch` and `node:http` allocate 64 KiB for every read of a socket, which takes most of the time of a large download.
 * For downloads, reads land in large blocks. Modules of Node are looked up at run time, so bundles for browsers do not
 * contain them.
 */
export function nodeHttp(baseUrl: string): NodeHttp | undefined {
  const { process } = globalThis
  if (!baseUrl.startsWith('http:') || !process?.versions?.node || process.env.NODE_USE_ENV_PROXY)
    return undefined
  const http = process.getBuiltinModule?.('node:http')
  const net = process.getBuiltinModule?.('node:net')
  const stream = process.getBuiltinModule?.('node:stream')
  if (!http || !net || !stream) return undefined
  const agent = new http.Agent({ keepAlive: true })
  const wide = new http.Agent({ keepAlive: true })
  Object.assign(wide, { createConnection: (to: { host: string; port: number }) => wideConnection(to) })
  return (url, { method, headers, body, signal, isDownload = false }) =>
    new Promise((resolve, reject) => {
      const options = { method, headers, signal, agent: isDownload ? wide : agent }
      const request = http.request(url, options, (response) => {
        const { statusCode: status = 0, rawHeaders } = response
        const pairs = rawHeaders.flatMap(
          (name, at): Array<[string, string]> => (at % 2 === 0 ? [[name, rawHeaders[at + 1]!]] : []),
        )
        resolve({ status, headers: pairs, body: chunksOf(response) })
      })
      request.on('error', reject)
      request.end(body)
    })

  /** A connection that is not a `net.Socket`, so that the parser gets the bytes from us and not from the socket. */
  function wideConnection({ host, port }: { host: string; port: number }) {
    let block = new Uint8Array(blockBytes)
    let used = 0
    const socket = net!.connect({
      host,
      port,
      noDelay: true,
      onread: {
        buffer: () => {
          if (block.length - used < blockBytes / 4) {
            block = new Uint8Array(blockBytes)
            used = 0
          }
          return block.subarray(used)
        },
        callback: (size, memory) => {
          used += size
          return connection.push(memory.subarray(0, size))
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

/** The chunks of a response, without joining them. Pauses the response while the consumer is slower. */
function chunksOf(response: {
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown
  on(event: 'end' | 'close', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  pause(): unknown
  resume(): unknown
  destroy(): unknown
}): AsyncGenerator<Uint8Array> {
  const queue: Uint8Array[] = []
  let queued = 0
  let ended = false
  let failure: { error: unknown } | undefined
  let wake: (() => void) | undefined
  response.on('data', (chunk) => {
    queue.push(chunk)
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
