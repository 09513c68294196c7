import type { Context } from '../context.ts'

/**
 * Throws `not_found` with suggestions for a misspelled provider. A provider of a sandbox counts, even if this program does
 * not have it.
 */
export async function checkProvider({ store, providers }: Context, name: string): Promise<void> {
  const used = await store.due.allProviders()
  if (!used.some(({ provider }) => provider === name)) providers.check(name)
}
