import { type SandboxCore, SandboxError } from '@sandkasten/sdk'
import type { Agent } from '../agents/index.ts'

/** A missing program would show up much later, in the middle of a session. */
export function requireTools(handle: SandboxCore, agent: Agent, tools: ReadonlySet<string>): void {
  const missing = agent.needs.filter((tool) => !tools.has(tool))
  if (missing.length > 0)
    throw new SandboxError(
      'command_not_found',
      `The sandbox has no ${missing.join(', ')}, which ${agent.title} needs.`,
      {
        provider: handle.provider,
        sandboxId: handle.sandboxId,
        details: { missing },
        hint: 'Install it in the sandbox, or use an image that has it.',
      },
    )
}
