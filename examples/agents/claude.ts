/**
 * A coding agent with a sandbox: Claude's tool_use (npm install @anthropic-ai/sdk) and a Sandkasten daemon.
 * Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and ANTHROPIC_API_KEY.
 */
import Anthropic from '@anthropic-ai/sdk'
import { SandboxClient } from '@sandkasten/sdk/client'

const claude = new Anthropic()
const session = await new SandboxClient().createSession()

const path = { type: 'string' } as const
const tools: Anthropic.Tool[] = [
  {
    name: 'exec',
    description: 'Execute a shell command in the sandbox. Stateful: cd, env, bg jobs persist.',
    input_schema: { type: 'object', properties: { cmd: { type: 'string' } }, required: ['cmd'] },
  },
  {
    name: 'write_file',
    description: 'Write content to a file in the sandbox workspace.',
    input_schema: {
      type: 'object',
      properties: { path, content: { type: 'string' } },
      required: ['path', 'content'],
    },
  },
  {
    name: 'read_file',
    description: 'Read a file from the sandbox workspace.',
    input_schema: { type: 'object', properties: { path }, required: ['path'] },
  },
]

async function use(name: string, input: Record<string, string>): Promise<string> {
  if (name === 'exec') {
    const { exitCode, cwd, output } = await session.exec(input.cmd!)
    return `exit=${exitCode}\ncwd=${cwd}\n---\n${output}`
  }
  if (name === 'write_file') {
    await session.write(input.path!, input.content!)
    return `wrote ${input.path}`
  }
  return new TextDecoder().decode(await session.read(input.path!))
}

/** A failure is a result too, so that the model can correct itself. */
async function resultOf({
  id,
  name,
  input,
}: Anthropic.ToolUseBlock): Promise<Anthropic.ToolResultBlockParam> {
  const result = { type: 'tool_result', tool_use_id: id } as const
  try {
    return { ...result, content: await use(name, input as Record<string, string>) }
  } catch (error) {
    return { ...result, content: String(error), is_error: true }
  }
}

const messages: Anthropic.MessageParam[] = [
  { role: 'user', content: 'Write a script that prints fibonacci numbers and run it' },
]
try {
  for (;;) {
    const { content } = await claude.messages.create({
      model: 'claude-sonnet-4-5',
      max_tokens: 4096,
      system: 'You have a Linux sandbox. Use exec, write_file, read_file.',
      tools,
      messages,
    })
    messages.push({ role: 'assistant', content })
    const calls = content.filter((block) => block.type === 'tool_use')
    if (calls.length === 0) {
      console.log(content.map((block) => (block.type === 'text' ? block.text : '')).join(''))
      break
    }
    messages.push({ role: 'user', content: await Promise.all(calls.map(resultOf)) })
  }
} finally {
  await session.destroy()
}
