import { scopeOf } from '../commands/command.ts'
import { said } from '../commands/reply.ts'
import { plain } from '../show/escape.ts'
import type { Control } from './control.ts'

/** Confirms `/sandbox-destroy`. */
const destroyIt: Control = {
  name: 'destroy',
  right: 'destroy',
  reply: 'update',
  target: ({ argument }) => argument,
  progress: ({ argument }) =>
    said(`-# • ${plain(argument, 63)} is being destroyed. Its threads are archived.`),
  async run(call, place) {
    const { threads } = await place.threads.destroy(scopeOf(call, place), call.argument, call.by)
    const count = threads.length === 1 ? '1 thread is' : `${threads.length} threads are`
    return { post: said(`-# • ${plain(call.argument, 63)} is destroyed. ${count} archived.`) }
  },
}

const keep: Control = {
  name: 'keep',
  right: 'use',
  reply: 'update',
  run: async () => ({ post: said('-# • Nothing was destroyed.') }),
}

export const destroying: readonly Control[] = [destroyIt, keep]
