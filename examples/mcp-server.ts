import { EngineProvider } from '@sandkasten/engine'
import { handleSource, serveHttp } from '@sandkasten/mcp'

const sandbox = await new EngineProvider().create()
const token = crypto.randomUUID()
const server = await serveHttp(handleSource(sandbox), { token })

// Any MCP client can use server.url with this header. Here, one call of a tool by hand.
const response = await fetch(server.url, {
  method: 'POST',
  headers: {
    authorization: `Bearer ${token}`,
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
  },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'run_command', arguments: { cmd: 'echo hello from the sandbox' } },
  }),
})
const { result } = JSON.parse((await response.text()).match(/^data: (\{.*)/m)![1]!)
console.log(result.content[0].text)

await server.close()
await sandbox.destroy()
