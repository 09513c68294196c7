import type { OpencodeClient } from '@opencode-ai/sdk/v2'
import { EngineProvider } from '@sandkasten/engine'
import {
  type BootstrapOpencodeOptions,
  bootstrapOpencode,
  modelNetwork,
  modelUrl,
} from '@sandkasten/opencode'

// Any OpenAI-compatible server. This one listens on this machine’s loopback.
const model = { url: process.env.MODEL_URL ?? 'http://127.0.0.1:8080/v1' }

// The sandbox reaches the model, and nothing else.
const sandbox = await new EngineProvider().create({
  network: modelNetwork(model),
  resources: { memoryMb: 2048, vcpus: 2 },
})
await sandbox.runCommand({ cmd: 'git', args: ['init', '--quiet'] })

const options: BootstrapOpencodeOptions = {
  model: 'local/qwen3',
  config: {
    enabled_providers: ['local'],
    provider: {
      local: {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: modelUrl(model), apiKey: 'none' },
        models: { qwen3: { tool_call: true, limit: { context: 128_000, output: 8192 } } },
      },
    },
  },
  onProgress: ({ message }) => console.error(message),
}
const server = await bootstrapOpencode(sandbox, options)
const client: OpencodeClient = await server.client()
const session = (await client.session.create()).data!
const prompt = (on: OpencodeClient, text: string) =>
  on.session.prompt({ sessionID: session.id, parts: [{ type: 'text', text }] })
await prompt(client, 'Write a haiku about tests to haiku.md.')
console.log((await sandbox.readFile('haiku.md')).toString())

// A stop ends opencode, and keeps its sessions. The next server has another URL and another password.
await sandbox.stop()
await sandbox.start()
const next = await bootstrapOpencode(sandbox, options)
const answer = await prompt(await next.client(), 'What have you written?')
console.log(answer.data!.parts.find((part) => part.type === 'text')?.text)
await sandbox.destroy()
