import { said } from '../commands/reply.ts'
import type { Control } from './control.ts'

/** Below an answer whose sandbox is being made. */
const cancel: Control = {
  name: 'cancel',
  right: 'use',
  reply: 'update',
  target: ({ argument }) => argument,
  async run({ argument, by }, { threads }) {
    if (await threads.cancel(argument, by)) return { word: said('-# ■ Cancelled.') }
    // It was ready a moment ago: then the answer is what the user wants to end.
    const wasWorking = await threads.abort(argument, by)
    return { word: said(wasWorking ? '-# ■ Stopped.' : '-# • There is nothing to cancel any more.') }
  },
}

/** Below an answer. */
const abort: Control = {
  name: 'abort',
  right: 'use',
  reply: 'update',
  target: ({ argument }) => argument,
  async run({ argument, by }, { threads }) {
    const wasWorking = await threads.abort(argument, by)
    return { word: said(wasWorking ? '-# ■ Stopped.' : '-# • Nothing was at work.') }
  },
}

export const progress: readonly Control[] = [cancel, abort]
