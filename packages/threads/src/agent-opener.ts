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
      const { threadId, hold, sandboxes, mode, sessionId, directory, isShared, forkOf } = place
      services.set(threadId, place.services)

      return agents.open({
        ...{ threadId, sandboxes, sandbox: hold, isShared },
        ...(mode !== undefined && { mode }),
        ...(sessionId !== undefined && { sessionId }),
        ...(directory !== undefined && { directory }),
        // The copy of the sandbox has the session of an agent inside.
        ...(forkOf?.mode === 'home' && { forkOf: forkOf.sessionId }),
        ...(onStep && { onProgress: onStep }),
        ...(signal && { signal }),
      })
    },
  }
}
