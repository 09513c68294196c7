import { once } from 'node:events'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'

export async function recorder(
  target: string,
  onRequest: (method: string, url: string, body: Buffer) => void,
): Promise<{ url: string; close: () => void }> {
  const { hostname, port } = new URL(target)
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      onRequest(request.method!, request.url!, body)
      const options = { hostname, port, method: request.method, path: request.url, headers: request.headers }
      const onward = http.request(options, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(response)
      })
      onward.on('error', () => response.destroy())
      response.on('close', () => onward.destroy())
      onward.end(body)
    })
  })
  server.on('upgrade', (request, socket, head) => {
    const onward = net.connect(Number(port), hostname, () => {
      const lines = request.rawHeaders.map((text, at) => (at % 2 ? `${text}\r\n` : `${text}: `)).join('')
      onward.write(`${request.method} ${request.url} HTTP/1.1\r\n${lines}\r\n`)
      onward.write(head)
      onward.pipe(socket).pipe(onward)
    })
    for (const end of [onward, socket]) end.on('error', () => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
