/**
 * The executor's tools in the AI SDK (npm install ai @ai-sdk/openai). Any provider works; this one is a Sandkasten daemon.
 * Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and OPENAI_API_KEY.
 */
import { openai } from '@ai-sdk/openai'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { getSandboxExecutor, sandboxTools } from '@sandkasten/sdk/executor'
import { generateText, jsonSchema, stepCountIs, tool } from 'ai'

const executor = getSandboxExecutor({ provider: new DaemonProvider() })
const tools = Object.fromEntries(
  sandboxTools(executor).map(({ name, description, inputSchema, execute }) => [
    name,
    tool({
      description,
      inputSchema: jsonSchema(inputSchema),
      execute: (input, { abortSignal }) => execute(input, { signal: abortSignal }),
    }),
  ]),
)

try {
  const { text } = await generateText({
    model: openai.chat('gpt-5.2'),
    prompt: 'Write a script that prints fibonacci numbers and run it',
    tools,
    stopWhen: stepCountIs(20),
  })
  console.log(text)
} finally {
  await executor.cleanup()
}
