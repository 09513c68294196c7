/**
 * A coding agent with a sandbox: the OpenAI Agents SDK (npm install @openai/agents zod) and a Sandkasten daemon.
 * Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and OPENAI_API_KEY.
 */
import { Agent, run, tool } from '@openai/agents'
import { SandboxClient } from '@sandkasten/sdk/client'
import { z } from 'zod'

const client = new SandboxClient()
const session = await client.createSession()

const exec = tool({
  name: 'exec',
  description: 'Execute a shell command in the sandbox. Stateful: cd, env, bg jobs persist.',
  parameters: z.object({ cmd: z.string(), timeoutMs: z.number().default(30_000) }),
  async execute({ cmd, timeoutMs }) {
    const { exitCode, cwd, output } = await session.exec(cmd, { timeoutMs })
    return `exit=${exitCode}\ncwd=${cwd}\n---\n${output}`
  },
})

const writeFile = tool({
  name: 'write_file',
  description: 'Write content to a file in the sandbox workspace.',
  parameters: z.object({ path: z.string(), content: z.string() }),
  async execute({ path, content }) {
    await session.write(path, content)
    return `wrote ${path}`
  },
})

const readFile = tool({
  name: 'read_file',
  description: 'Read a file from the sandbox workspace.',
  parameters: z.object({ path: z.string() }),
  execute: async ({ path }) => new TextDecoder().decode(await session.read(path)),
})

const agent = new Agent({
  name: 'coding-assistant',
  instructions: 'You have a Linux sandbox. Use exec, write_file, read_file.',
  tools: [exec, writeFile, readFile],
})

try {
  const result = await run(agent, 'Write a script that prints fibonacci numbers and run it')
  console.log(result.finalOutput)
} finally {
  await session.destroy()
}
