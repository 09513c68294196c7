import { ManualClock, MemoryProvider, type MemoryProviderOptions } from '../providers/memory/index.ts'
import { override } from '../shared/override.ts'
import { type FailoverOptions, failover } from './failover.ts'
import type { FailoverAccount } from './failover-account.ts'

export const groups: AsyncDisposable[] = []
export async function closeGroups(): Promise<void> {
  for (const group of groups.splice(0)) await group[Symbol.asyncDispose]()
}

export function setUp(options: FailoverOptions = {}, first: MemoryProviderOptions = {}) {
  const clock = new ManualClock(1_000_000)
  const a = new MemoryProvider({ clock, seed: 'a', ...first })
  const b = new MemoryProvider({ clock, seed: 'b' })
  const accounts: FailoverAccount[] = []
  const group = failover(a, named(b, 'second'), {
    clock,
    onChoice: (account) => accounts.push(account),
    ...options,
  })
  groups.push(group)
  return { clock, a, b, group, accounts }
}

/** A memory provider with another name, which is also the prefix of its ids. */
export function named(real: MemoryProvider, name: string): MemoryProvider {
  const rename = <T extends { sandboxId: string }>(handle: T): T =>
    override(handle as T & object, { id: `${name}:${handle.sandboxId}`, provider: name } as never) as T
  const native = (id: string) => id.replace(`${name}:`, '')
  return override(real, {
    name,
    create: async (options) => rename(await real.create(options)),
    get: async (id, options) => rename(await real.get(typeof id === 'string' ? native(id) : id, options)),
    getOrCreate: async (options) => rename(await real.getOrCreate(options)),
    destroy: (id, options) => real.destroy(native(id), options),
    list: async (options) => {
      const page = await real.list(options)
      for (const info of page) info.id = `${name}:${info.sandboxId}`
      return page
    },
    listHandles: async (options) => (await real.listHandles(options)).map(rename),
  })
}
