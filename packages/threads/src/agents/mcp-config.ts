import type { BridgeAddress } from './request.ts'

/** For opencode. */
export function mcpConfig({ url, token }: Pick<BridgeAddress, 'url' | 'token'>) {
  // A question to a user can take long. Reminders of progress do not extend opencode's limit.
  const timeout = 3_600_000
  const headers = { authorization: `Bearer ${token}` }
  return { type: 'remote', url, headers, oauth: false, enabled: true, timeout }
}
