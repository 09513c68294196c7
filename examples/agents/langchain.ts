/**
 * A coding agent with a sandbox: LangChain (npm install @langchain/core @langchain/anthropic zod) and a Sandkasten daemon.
 * Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and ANTHROPIC_API_KEY.
 */
import { ChatAnthropic } from '@langchain/anthropic'
import { type BaseMessage, HumanMessage, SystemMessage } from '@langchain/core/messages'
import { type StructuredToolInterface, tool } from '@langchain/core/tools'
import { SandboxClient } from '@sandkasten/sdk/client'
import { z } from 'zod'

const session = await new SandboxClient().createSession()

const exec = tool(
  async ({ cmd, timeoutMs }) => {
    const { exitCode, cwd, output } = await session.exec(cmd, { timeoutMs })
    return `exit=${exitCode}\ncwd=${cwd}\n---\n${output}`
  },
  {
    name: 'exec',
    description: 'Execute a shell command in the sandbox. Stateful: cd, env, bg jobs persist.',
    schema: z.object({ cmd: z.string(), timeoutMs: z.number().default(30_000) }),
  },
)

const writeFile = tool(
  async ({ path, content }) => {
    await session.write(path, content)
    return `wrote ${path}`
  },
  {
    name: 'write_file',
    description: 'Write content to a file in the sandbox workspace.',
    schema: z.object({ path: z.string(), content: z.string() }),
  },
)

const readFile = tool(async ({ path }) => new TextDecoder().decode(await session.read(path)), {
  name: 'read_file',
  description: 'Read a file from the sandbox workspace.',
  schema: z.object({ path: z.string() }),
})

const tools: StructuredToolInterface[] = [exec, writeFile, readFile]
const model = new ChatAnthropic({ model: 'claude-sonnet-4-5' }).bindTools(tools)
const messages: BaseMessage[] = [
  new SystemMessage('You have a Linux sandbox. Use exec, write_file, read_file.'),
  new HumanMessage('Write a script that prints fibonacci numbers and run it'),
]
try {
  for (;;) {
    const reply = await model.invoke(messages)
    messages.push(reply)
    for (const call of reply.tool_calls ?? [])
      messages.push(
        await tools.find(({ name }) => name === call.name)!.invoke({ ...call, type: 'tool_call' }),
      )
    if (!reply.tool_calls?.length) {
      console.log(reply.text)
      break
    }
  }
} finally {
  await session.destroy()
}
