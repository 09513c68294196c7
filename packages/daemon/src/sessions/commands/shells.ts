import { SandboxError, type SandboxShell } from '@sandkasten/sdk'
import { checkCount } from '../limits/request-limits.ts'
import type { Open } from '../live-sessions.ts'

export const mainShell = 'main'

/**
 * Opens each of a session's shells once per start of its sandbox. A shell from before a restart is found by its name.
 */
export async function shellOf(
  open: Open,
  name: string,
  options: { cwd?: string; env?: Readonly<Record<string, string>>; login?: boolean } = {},
): Promise<SandboxShell> {
  const known = open.shells.get(name)
  if (known) return known
  checkCount(open.shells.size, 'shells')
  const opening = open.sandbox.openShell({ name, ...options })
  open.shells.set(name, opening)
  opening.catch(() => {
    if (open.shells.get(name) === opening) open.shells.delete(name)
  })
  return opening
}

export async function closeShell(open: Open, name: string): Promise<boolean> {
  const known = open.shells.get(name)
  if (!known) {
    if (name === mainShell) return (await open.sandbox.openShell({ name })).close()
    throw new SandboxError('not_found', `There is no shell “${name}”.`, {
      hint: {
        sdk: 'Open it with openShell().',
        http: 'See GET /v1/sessions/{id}/shells.',
        cli: 'See sandkasten shells list.',
      },
    })
  }
  open.shells.delete(name)
  return (await known).close()
}
