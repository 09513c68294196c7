import type { AgentMessage, AgentOpener, AgentPlace, ThreadAgent } from '@sandkasten/threads'

/** Agents that repeat what they are told. A message with `fail` fails. */
export class EchoAgents implements AgentOpener {
  #count = 0

  newMessageId(): string {
    this.#count += 1
    return `msg_${String(this.#count).padStart(8, '0')}`
  }

  async open({ threadId, hold }: AgentPlace): Promise<ThreadAgent> {
    const history = new Map<string, AgentMessage>()
    return {
      mode: 'inside',
      sessionId: `ses_${threadId}`,
      directory: hold.handle.workdir,
      async prompt(message) {
        history.set(message.id, message)
      },
      has: async (id) => history.has(id),
      async *answer(id) {
        const { text } = history.get(id)!
        const blocks = [{ type: 'text' as const, id: 't', text: `echo: ${text}` }]
        yield text.includes('fail')
          ? { state: 'failed', isFinal: true, blocks, questions: [], error: 'The model refused.' }
          : { state: 'done', isFinal: true, blocks, questions: [] }
      },
      abort: async () => {},
      reply: async () => {},
      models: async () => [],
      [Symbol.asyncDispose]: async () => {},
    }
  }
}
