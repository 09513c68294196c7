import { newMessageId } from '@sandkasten/opencode/session'
import type { Agents } from './agents/index.ts'
import type { AgentOpener, ThreadServices } from './spec/agents.ts'

/**
 * The agents of opencode for `openThreads`. `services` gets what each thread’s agent may ask of its thread, for the
 * bridge.
 */
export function agentOpener(
  agents: Pick<Agents, 'open'>,
  services: Map<string, ThreadServices> = new Map(),
): AgentOpener {
  return {
    newMessageId: () => newMessageId(),
    open(place, { signal, onStep } = {}) {
      const { threadId, hold, sandboxes, mode, directory, isShared, forkOf } = place
      services.set(threadId, place.services)
      // The copy of the sandbox has the session of an agent inside. One at home begins a new session.
      const sessionId = place.sessionId ?? (forkOf?.mode === 'inside' ? forkOf.sessionId : undefined)
      return agents.open({
        ...{ threadId, sandboxes, sandbox: hold, isShared },
        ...(mode !== undefined && { mode }),
        ...(sessionId !== undefined && { sessionId }),
        ...(directory !== undefined && { directory }),
        ...(onStep && { onProgress: onStep }),
        ...(signal && { signal }),
      })
    },
  }
}
