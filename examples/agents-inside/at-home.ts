import { spawn } from 'node:child_process'
import { createOpencodeClient } from '@opencode-ai/sdk/v2'
import { EngineProvider } from '@sandkasten/engine'
import { handleSource, serveHttp } from '@sandkasten/mcp'
import { sandboxOnly, waitForHealth } from '@sandkasten/opencode'

const sandbox = await new EngineProvider().create()
const token = crypto.randomUUID()
const tools = await serveHttp(handleSource(sandbox), { token })

const { env, directory, permission } = await sandboxOnly({
  mcp: { type: 'remote', url: tools.url, headers: { authorization: `Bearer ${token}` }, oauth: false },
  config: {
    model: 'local/qwen3',
    enabled_providers: ['local'],
    provider: {
      local: {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: process.env.MODEL_URL ?? 'http://127.0.0.1:8080/v1', apiKey: 'none' },
        models: { qwen3: { tool_call: true, limit: { context: 128_000, output: 8192 } } },
      },
    },
  },
})

// opencode runs here, in an empty folder, and its tools are in the sandbox.
const [port, password] = [process.env.PORT ?? '4099', crypto.randomUUID()]
const opencode = spawn('opencode', ['serve', '--port', port], {
  cwd: directory,
  env: { ...process.env, ...env, OPENCODE_SERVER_PASSWORD: password },
  stdio: 'ignore',
})
const baseUrl = `http://127.0.0.1:${port}`
const headers = { authorization: `Basic ${btoa(`opencode:${password}`)}` }
await waitForHealth(baseUrl, { headers })

const client = createOpencodeClient({ baseUrl, directory, headers })
const session = (await client.session.create({ permission })).data!
await client.session.prompt({
  sessionID: session.id,
  parts: [{ type: 'text', text: 'Write a haiku about tests to haiku.md.' }],
})
console.log((await sandbox.readFile('haiku.md')).toString())

opencode.kill()
await tools.close()
await sandbox.destroy()
