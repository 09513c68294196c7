import type { AgentEvent } from './events.ts'

interface Block {
  readonly type?: string
  readonly text?: unknown
  readonly name?: unknown
  readonly is_error?: unknown
}

/** Reads a line of `--output-format stream-json`. Other lines, and kinds that we do not know, are ignored. */
export function readClaudeLine(line: string): AgentEvent[] {
  const message = parsed(line)
  if (message === undefined) return []
  const { type, subtype, session_id: sessionId, result, is_error: isError, errors } = message
  if (type === 'system' && subtype === 'init' && typeof sessionId === 'string')
    return [{ type: 'session', sessionId }]
  if (type === 'result') {
    const text = typeof result === 'string' ? result : ''
    const problem = text || (Array.isArray(errors) ? errors.join('\n') : '') || String(subtype)
    const failed = isError === true || subtype !== 'success'
    return [{ type: 'result', text, ...(failed ? { error: problem } : {}) }]
  }
  return blocksOf(message).flatMap((block): AgentEvent[] => {
    if (type === 'assistant' && block.type === 'text') return [{ type: 'text', text: String(block.text) }]
    if (type === 'assistant' && block.type === 'tool_use')
      return [{ type: 'tool', tool: String(block.name), status: 'running' }]
    return []
  })
}

function blocksOf({ message }: Record<string, unknown>): Block[] {
  const { content } = (message ?? {}) as { content?: unknown }
  return Array.isArray(content) ? content.filter((one) => typeof one === 'object' && one !== null) : []
}

function parsed(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
