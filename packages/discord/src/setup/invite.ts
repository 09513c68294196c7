/** What the bot does in a server, and the permission that it needs for it. */
export const permissions = {
  'View Channels': 1n << 10n,
  'Add Reactions': 1n << 6n,
  'Send Messages': 1n << 11n,
  'Embed Links': 1n << 14n,
  'Attach Files': 1n << 15n,
  'Read Message History': 1n << 16n,
  'Manage Threads': 1n << 34n,
  'Create Public Threads': 1n << 35n,
  'Send Messages in Threads': 1n << 38n,
} as const

/** The link with which a member who manages a server invites the bot. */
export function inviteLink(appId: string): string {
  const sum = Object.values(permissions).reduce((all, one) => all | one, 0n)
  const query = new URLSearchParams({
    client_id: appId,
    scope: 'bot applications.commands',
    permissions: sum.toString(),
  })
  return `https://discord.com/oauth2/authorize?${query}`
}
