import type { Incarnation } from '../sources/index.ts'
import type { ToolResult } from '../tools/index.ts'
import type { CalledTool } from './caller.ts'

/** Remembers the start of the sandbox that an agent has seen last. */
export interface Seen {
  incarnation?: Incarnation
}

/** Tells the agent, once and before the result, that the sandbox was started again since its last call. */
export function withNews({ result, incarnation }: CalledTool, seen: Seen): ToolResult {
  if (!incarnation) return result
  const before = seen.incarnation
  seen.incarnation = incarnation
  const news = before && newsOf(before, incarnation)
  if (news === undefined) return result
  return { ...result, content: [{ type: 'text', text: news }, ...result.content] }
}

function newsOf(before: Incarnation, now: Incarnation): string | undefined {
  if (before.sandboxId !== now.sandboxId) {
    const when = now.snapshotAt === undefined ? '' : ` of ${now.snapshotAt}`
    return `Note: The sandbox had ended and was created again from its last snapshot${when}. Later changes to files are lost, and all programs have ended.`
  }
  if (before.count === now.count) return undefined
  return 'Note: The sandbox was stopped and started again since your last call. Files are as they were; all programs have ended.'
}
