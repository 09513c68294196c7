import type { Answer, AnswerState } from '@sandkasten/threads'
import { plain } from './escape.ts'

/** The mark of the last line of an answer that has ended. Texts of others cannot have such a line; see `escape.ts`. */
export const endMarks = { done: '✓', failed: '✗', aborted: '■' } as const

const present: Record<Exclude<AnswerState, keyof typeof endMarks>, string> = {
  queued: 'waits for its turn',
  preparing: 'preparing',
  working: 'working',
}

/** The last line of an answer: `-# ✓ sandbox · provider · status · model · cost · time`. */
export function footerOf({ state, isFinal, footer }: Answer): string {
  const facts = footer
    ? [
        plain(footer.sandbox, 63),
        plain(footer.provider, 40),
        plain(footer.status, 40),
        ...(footer.model ? [plain(footer.model, 80)] : []),
        ...(footer.costUsd === undefined ? [] : [cost(footer.costUsd)]),
        duration(footer.durationMs),
      ]
    : []
  const ended = isFinal && state in endMarks
  const mark = ended ? endMarks[state as keyof typeof endMarks] : '…'
  const words = state === 'done' ? [] : [ended ? state : present[state as keyof typeof present]]
  const text = [...words, ...facts].join(' · ')
  return `-# ${mark} ${text || state}`
}

/** How an answer ended, read from the last line of its last message. Undefined: it has not. */
export function endOf(content: string): keyof typeof endMarks | undefined {
  const last = content.slice(content.lastIndexOf('\n') + 1)
  for (const [state, mark] of Object.entries(endMarks))
    if (last.startsWith(`-# ${mark} `)) return state as keyof typeof endMarks
  return undefined
}

export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 90) return `${Math.round(seconds)} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`
}

function cost(usd: number): string {
  return usd > 0 && usd < 0.01 ? '< $0.01' : `$${Math.max(0, usd).toFixed(2)}`
}
