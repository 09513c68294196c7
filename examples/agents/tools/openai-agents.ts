/**
 * The executor's tools in the OpenAI Agents SDK (npm install @openai/agents). Any provider works; this one is a Sandkasten
 * daemon. Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and OPENAI_API_KEY.
 */
import { Agent, run, tool } from '@openai/agents'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { getSandboxExecutor, sandboxTools } from '@sandkasten/sdk/executor'

const executor = getSandboxExecutor({ provider: new DaemonProvider() })
const tools = sandboxTools(executor).map(({ name, description, inputSchema, execute }) =>
  tool({
    name,
    description,
    // Some inputs are optional, which the strict mode does not allow.
    strict: false,
    parameters: inputSchema,
    execute: (input, _context, details) => execute(input, { signal: details?.signal }),
  }),
)

const agent = new Agent({ name: 'coding-assistant', instructions: 'You have a Linux sandbox.', tools })
try {
  const result = await run(agent, 'Write a script that prints fibonacci numbers and run it')
  console.log(result.finalOutput)
} finally {
  await executor.cleanup()
}
