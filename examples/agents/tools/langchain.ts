/**
 * The executor's tools in LangChain (npm install @langchain/core @langchain/anthropic). Any provider works; this one is a
 * Sandkasten daemon. Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and ANTHROPIC_API_KEY.
 */
import { ChatAnthropic } from '@langchain/anthropic'
import { type BaseMessage, HumanMessage } from '@langchain/core/messages'
import { type StructuredToolInterface, tool } from '@langchain/core/tools'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { getSandboxExecutor, sandboxTools } from '@sandkasten/sdk/executor'

const executor = getSandboxExecutor({ provider: new DaemonProvider() })
const tools: StructuredToolInterface[] = sandboxTools(executor).map(
  ({ name, description, inputSchema, execute }) =>
    tool((input, { signal }) => execute(input, { signal }), { name, description, schema: inputSchema }),
)

const model = new ChatAnthropic({ model: 'claude-sonnet-4-5' }).bindTools(tools)
const messages: BaseMessage[] = [new HumanMessage('Write a script that prints fibonacci numbers and run it')]
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
  await executor.cleanup()
}
