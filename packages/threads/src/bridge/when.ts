import { SandboxError } from '@sandkasten/sdk'

/** A time in the words of an agent: an ISO date with a time zone, `in 20 minutes`, or `every 6 hours`. */
export function timeOf(when: string, now = Date.now()): { readonly at: Date; readonly everyMs?: number } {
  const words = when.trim().toLowerCase()
  const [, once, every, unit] =
    /^(?:in (\d{1,4})|every(?: (\d{1,4}))?) (minute|hour|day|week)s?$/.exec(words) ?? []
  if (unit !== undefined) {
    const ms = Number(once ?? every ?? 1) * unitMs[unit]!
    const at = new Date(now + ms)
    return once === undefined ? { at, everyMs: ms } : { at }
  }
  const at = new Date(when.trim())
  if (!isoDate.test(words) || Number.isNaN(at.getTime()))
    throw new SandboxError(
      'invalid_argument',
      `The time ${JSON.stringify(when.slice(0, 100))} was not understood. Use an ISO date with a time zone such as ` +
        '2030-01-31T09:00:00Z, “in 20 minutes”, or “every 6 hours”.',
    )
  if (at.getTime() <= now) throw new SandboxError('invalid_argument', 'This time is in the past.')
  return { at }
}

const unitMs: Readonly<Record<string, number>> = {
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
}

const isoDate = /^\d{4}-\d{2}-\d{2}t\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(z|[+-]\d{2}:\d{2})$/
