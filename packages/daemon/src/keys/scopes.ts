/** Scopes of keys: read, work in sandboxes, and manage the project. Each scope includes the previous one. */
export const scopes = ['read', 'exec', 'admin'] as const
export type Scope = (typeof scopes)[number]

export function includes(held: readonly Scope[], needed: Scope): boolean {
  return held.some((scope) => scopes.indexOf(scope) >= scopes.indexOf(needed))
}
