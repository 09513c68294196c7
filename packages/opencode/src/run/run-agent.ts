import { type SandboxCore, SandboxError } from '@sandkasten/sdk'
import { type AgentName, agentOf } from '../agents/index.ts'
import { bootstrapAgent, installAgent } from '../bootstrap/bootstrap.ts'
import { withDeadline } from '../bootstrap/deadline.ts'
import type { AgentServer, BootstrapOptions } from '../bootstrap/options.ts'
import type { AgentEvent } from './events.ts'
import { runProgram } from './program.ts'

export interface RunAgentOptions extends BootstrapOptions {
  /** The server of a bootstrap. Without it, one is started for this prompt, and ended afterwards. */
  server?: AgentServer
  /** Continues this session. */
  sessionId?: string
  /** Called with what the agent does, as it happens. */
  onEvent?: (event: AgentEvent) => void
  /** For the prompt, without the start of the agent. Default: 30 minutes. */
  timeoutMs?: number
}

export interface AgentRun {
  /** The agent’s answer. */
  readonly text: string
  /** To continue it. */
  readonly sessionId?: string
  /** Why the agent could not finish, in its own words. */
  readonly error?: string
}

const mostPrompt = 8 * 1024 * 1024

/** Runs one prompt without a terminal. Cancelling it ends the agent’s work in the sandbox. */
export async function runAgent(
  handle: SandboxCore,
  name: AgentName,
  prompt: string,
  options: RunAgentOptions = {},
): Promise<AgentRun> {
  const { server: given, sessionId, onEvent = () => {}, timeoutMs = 1_800_000, ...bootstrap } = options
  const agent = agentOf(name)
  if (prompt === '' || prompt.length > mostPrompt)
    throw new SandboxError('invalid_argument', 'The prompt is empty or longer than 8 MiB.', {
      hint: 'Pass the beginning of a conversation, and put long material into a file.',
    })
  const { headless } = agent
  const { model, signal } = options
  if (headless.through === 'program') {
    const { installed, env } = await installAgent(handle, agent, bootstrap)
    const context = { handle, headless, installed, env, prompt, model, sessionId }
    return withDeadline(`The prompt of ${agent.title}`, timeoutMs, signal, (both) =>
      collect(runProgram({ ...context, signal: both }), onEvent),
    )
  }
  const server = given ?? ((await bootstrapAgent(handle, name, bootstrap)) as AgentServer)
  const { url, headers, directory } = server
  try {
    return await withDeadline(`The prompt of ${agent.title}`, timeoutMs, signal, (both) =>
      collect(headless.run({ url, headers, directory, prompt, model, sessionId, signal: both }), onEvent),
    )
  } catch (error) {
    throw lost(handle, agent.title, error)
  } finally {
    // Without the caller's server there is no one left who knows the password.
    if (given === undefined && !server.reused) await server.stop().catch(() => {})
  }
}

async function collect(
  events: AsyncGenerator<AgentEvent, void>,
  onEvent: (event: AgentEvent) => void,
): Promise<AgentRun> {
  let sessionId: string | undefined
  let result: AgentRun | undefined
  for await (const event of events) {
    if (event.type === 'session') sessionId = event.sessionId
    if (event.type === 'result') result = { text: event.text, error: event.error }
    onEvent(event)
  }
  if (result === undefined) throw new SandboxError('provider_error', 'The agent ended without an answer.')
  return { ...result, sessionId }
}

/** A closed connection: the server or its sandbox ended, or the way to it. */
function lost(handle: SandboxCore, title: string, error: unknown): unknown {
  if (error instanceof SandboxError) return error
  return new SandboxError('connection_lost', `The connection to ${title} was lost during the prompt.`, {
    provider: handle.provider,
    sandboxId: handle.sandboxId,
    cause: error,
    // The prompt may have had effects.
    retryable: false,
    hint: 'See whether the sandbox runs, bootstrap again, and continue the session.',
  })
}
