import { limits } from './limits.ts'

/**
 * Runs in the sandbox, in Bun or Node, so it is a text and imports nothing but Node's modules. It listens on loopback and
 * carries requests as lines of JSON: requests on stdout, responses on stdin. The end of stdin is the end of the bot: open
 * requests are answered with a reason, because an agent waits for them, and the program ends.
 *
 * Argument: the port, or 0 for a free one.
 */
export const relayProgram = `
const http = require('node:http')
const open = new Map()
let next = 0
let isEnding = false
const send = (value) => process.stdout.write(JSON.stringify(value) + '\\n')
const fail = (response, status, message, id = null) => {
  if (response.destroyed) return
  const body = JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32000, message } })
  if (!response.headersSent) response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.end(body)
}
const server = http.createServer((request, response) => {
  if (isEnding || open.size >= ${limits.requests}) {
    request.resume()
    return fail(response, 429, 'Too many requests at the same time.')
  }
  const id = ++next
  const entry = { response, rpc: null }
  open.set(id, entry)
  const chunks = []
  let size = 0
  let isRefused = false
  request.on('data', (chunk) => {
    size += chunk.length
    if (size > ${limits.bodyBytes} && !isRefused) {
      isRefused = true
      open.delete(id)
      fail(response, 413, 'The request is too large.')
    }
    if (!isRefused) chunks.push(chunk)
  })
  request.on('error', () => open.delete(id))
  request.on('end', () => {
    if (isRefused) return
    const body = Buffer.concat(chunks)
    try { entry.rpc = JSON.parse(body.toString('utf8')).id ?? null } catch {}
    const headers = {}
    for (const name of ['authorization', 'accept', 'content-type', 'mcp-session-id', 'mcp-protocol-version', 'last-event-id'])
      if (typeof request.headers[name] === 'string') headers[name] = request.headers[name].slice(0, 2000)
    send({ type: 'request', id, method: request.method, headers, body: body.toString('base64') })
  })
  response.on('close', () => {
    if (open.delete(id)) send({ type: 'cancel', id })
  })
})
server.keepAliveTimeout = 1000
server.headersTimeout = 10000
server.requestTimeout = 30000
server.maxConnections = 64
server.on('error', (error) => { send({ type: 'failed', code: String(error.code) }); process.exit(1) })
server.listen(Number(process.argv.at(-1)), '127.0.0.1', () => send({ type: 'listening', port: server.address().port }))
let rest = ''
process.stdin.setEncoding('utf8')
process.stdin.on('data', (text) => {
  const lines = (rest + text).split('\\n')
  rest = lines.pop()
  for (const line of lines) {
    if (line === '') continue
    const { id, status, headers, data, isEnd } = JSON.parse(line)
    const entry = open.get(id)
    if (!entry) continue
    if (status !== undefined) entry.response.writeHead(status, headers)
    if (data) entry.response.write(Buffer.from(data, 'base64'))
    if (isEnd) { open.delete(id); entry.response.end() }
  }
})
process.stdin.on('end', () => {
  isEnding = true
  const message = 'The bot was stopped or restarted before there was an answer. Ask again in a moment.'
  for (const { response, rpc } of open.values()) {
    if (response.headersSent && rpc !== null)
      response.end('data: ' + JSON.stringify({ jsonrpc: '2.0', id: rpc, error: { code: -32000, message } }) + '\\n\\n')
    else fail(response, 503, message, rpc)
  }
  open.clear()
  server.close(() => process.exit(0))
  setTimeout(() => process.exit(0), 1000)
})
process.stdout.on('error', () => process.exit(1))
`

/** Runs the program with opencode’s own binary, which has Bun, or with Node. `$1`: the program. `$2`: the port. */
export const relayStart = `
for file in "$HOME/.local/bin/opencode" "$HOME/.opencode/bin/opencode" /opt/sandkasten/opencode "$(command -v opencode)"; do
  [ -x "$file" ] && BUN_BE_BUN=1 exec "$file" -e "$1" "$2"
done
command -v node >/dev/null && exec node -e "$1" "$2"
exit 127
`
