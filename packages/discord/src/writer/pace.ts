/**
 * How fast posts are edited. Discord allows 5 requests in 5 seconds for the messages of one channel and 50 in one second
 * for the bot. A part of the second is left to first posts, last states and interactions.
 */
export interface Pace {
  /** The least time between two states of an answer in one thread. */
  readonly editEveryMs: number
  /** All edits of one second, over all threads. */
  readonly editsPerSecond: number
  readonly typingEveryMs: number
  /** With more threads at work, none shows that the bot is typing. */
  readonly typingThreads: number
}

export const usualPace: Pace = {
  editEveryMs: 1200,
  editsPerSecond: 25,
  typingEveryMs: 8000,
  typingThreads: 40,
}

export function waitBetweenEdits({ editEveryMs, editsPerSecond }: Pace, busyThreads: number): number {
  return Math.max(editEveryMs, (busyThreads / editsPerSecond) * 1000)
}
