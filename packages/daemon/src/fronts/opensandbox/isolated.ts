import { SandboxError } from '@sandkasten/sdk'
import type { Entry } from './entry.ts'

/** Sandboxes inside a sandbox are not supported. The SDK asks before it uses them. */
export function isolatedRoutes(entry: Entry): void {
  entry.execd('GET', '/v1/isolated/capabilities', 'read', async ({ caller, id }) => {
    await entry.find(caller, id)
    return {
      available: false,
      message: 'This server has no isolated sessions within a sandbox.',
      setpriv_available: false,
      userns_available: false,
      commit_supported: false,
      diff_supported: false,
    }
  })
  for (const method of ['GET', 'POST', 'PATCH', 'DELETE'] as const)
    entry.execd(method, '/v1/isolated/*', 'exec', async ({ caller, id }) => {
      await entry.find(caller, id)
      throw new SandboxError('unavailable', 'Isolated sessions are not available.', {
        details: { opensandboxCode: 'NOT_SUPPORTED' },
        hint: 'Create a separate sandbox instead.',
      })
    })
}
