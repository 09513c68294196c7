import { EngineProvider } from '@sandkasten/engine'
import { bootstrapOpencode, modelNetwork, modelUrl, openWorktree, runAgent } from '@sandkasten/opencode'

const model = { url: process.env.MODEL_URL ?? 'http://127.0.0.1:8080/v1' }
const sandbox = await new EngineProvider().create({
  network: modelNetwork(model),
  resources: { memoryMb: 2048, vcpus: 2 },
})
const commit = ['-c', 'user.name=me', '-c', 'user.email=me@example.com', 'commit', '--quiet', '--allow-empty']
await sandbox.runCommand({ cmd: 'git', args: ['init', '--quiet'] })
await sandbox.runCommand({ cmd: 'git', args: [...commit, '--message', 'first'] })

const server = await bootstrapOpencode(sandbox, {
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
})

// One server, one folder and one branch for each thread.
for (const thread of ['tests', 'docs']) {
  const { path, branch } = await openWorktree(sandbox, { thread })
  await runAgent(sandbox, 'opencode', `Write a haiku about ${thread} to haiku.md.`, {
    server: { ...server, directory: path },
  })
  console.log(branch, (await sandbox.readFile(`${path}/haiku.md`)).toString())
}
await sandbox.destroy()
