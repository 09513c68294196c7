/** What an agent does while it works on a prompt. */
export type AgentEvent =
  | { readonly type: 'session'; readonly sessionId: string }
  /** A part of the answer, in order. */
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'tool'; readonly tool: string; readonly status: 'running' | 'completed' | 'error' }
  | { readonly type: 'result'; readonly text: string; readonly error?: string }

/** For an agent with a server. */
export interface RunContext {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly directory: string
  readonly prompt: string
  readonly model: string | undefined
  readonly sessionId: string | undefined
  readonly signal: AbortSignal
}
