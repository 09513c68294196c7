/**
 * The same agent with the AI SDK (npm install ai @ai-sdk/openai zod) and a Sandkasten daemon.
 * Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and OPENAI_API_KEY.
 */
import { openai } from '@ai-sdk/openai'
import { SandboxClient } from '@sandkasten/sdk/client'
import { generateText, stepCountIs, tool } from 'ai'
import { z } from 'zod'

const client = new SandboxClient()
const session = await client.createSession()

const tools = {
  exec: tool({
    description: 'Execute a shell command in the sandbox. Stateful: cd, env, bg jobs persist.',
    inputSchema: z.object({ cmd: z.string(), timeoutMs: z.number().default(30_000) }),
    async execute({ cmd, timeoutMs }) {
      const { exitCode, cwd, output } = await session.exec(cmd, { timeoutMs })
      return `exit=${exitCode}\ncwd=${cwd}\n---\n${output}`
    },
  }),
  write_file: tool({
    description: 'Write content to a file in the sandbox workspace.',
    inputSchema: z.object({ path: z.string(), content: z.string() }),
    async execute({ path, content }) {
      await session.write(path, content)
      return `wrote ${path}`
    },
  }),
  read_file: tool({
    description: 'Read a file from the sandbox workspace.',
    inputSchema: z.object({ path: z.string() }),
    execute: async ({ path }) => new TextDecoder().decode(await session.read(path)),
  }),
}

try {
  const { text } = await generateText({
    model: openai.chat('gpt-5.2'),
    system: 'You have a Linux sandbox. Use exec, write_file, read_file.',
    prompt: 'Write a script that prints fibonacci numbers and run it',
    tools,
    stopWhen: stepCountIs(20),
  })
  console.log(text)
} finally {
  await session.destroy()
}
