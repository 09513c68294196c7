import { randomUUID } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import type { ScheduledMessage, ThreadServices } from '../spec/agents.ts'
import type { BridgeHome, BridgeSchedule } from './bridge-home.ts'
import { timeOf } from './when.ts'

/** The bridge’s home: the services of the threads that are open. */
export function servicesHome(services: ReadonlyMap<string, ThreadServices>): BridgeHome {
  const of = (threadId: string): ThreadServices => {
    const found = services.get(threadId)
    if (!found) throw new SandboxError('unavailable', 'The conversation is not open now. Try again later.')
    return found
  }
  return {
    sendFile: (threadId, file, note, options) =>
      of(threadId).sendFile(randomUUID(), file, { ...options, ...(note !== undefined && { note }) }),
    async ask(threadId, { text, choices }, options) {
      const shown = choices.map((choice) => ({ value: choice, label: choice }))
      const question = { text, choices: shown, isMultiple: false, allowsText: true }
      const reply = await of(threadId).ask(randomUUID(), question, options)
      if ('rejected' in reply)
        throw new SandboxError('interrupted', 'The question ended without a reply. Continue without it.')
      return [...reply.choices, ...(reply.text === undefined ? [] : [reply.text])].join(', ')
    },
    setTitle: (threadId, title) => of(threadId).setTitle(title),
    async schedule(threadId, { when, text }) {
      return shownSchedule(await of(threadId).schedule(randomUUID(), { ...timeOf(when), text }))
    },
    cancelSchedule: (threadId, id) => of(threadId).cancelSchedule(id),
    async listSchedules(threadId) {
      return (await of(threadId).listSchedules()).map(shownSchedule)
    },
  }
}

function shownSchedule({ id, at, everyMs, text }: ScheduledMessage): BridgeSchedule {
  const repeated = everyMs === undefined ? '' : `, then every ${everyMs / 60_000} minutes`
  return { id, when: `${at.toISOString()}${repeated}`, text }
}
