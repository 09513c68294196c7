/**
 * Scopes of keys: read, work in sandboxes, and manage the project. Each of these includes the previous one. `secrets`
 * sets and deletes secrets, and nothing else; `admin` includes it.
 */
export const scopes = ['read', 'exec', 'admin', 'secrets'] as const
export type Scope = (typeof scopes)[number]

export function includes(held: readonly Scope[], needed: Scope): boolean {
  return held.some(
    (scope) => scope === needed || scope === 'admin' || (scope === 'exec' && needed === 'read'),
  )
}
