/** What happened so far, for assertions. */
export interface Counters {
  /** Requests by method and route, for example `POST /channels/:channel/messages`. */
  readonly requests: Record<string, number>
  /** Answers with status 429 by route. */
  readonly rateLimited: Record<string, number>
  /** The longest run of 429s for one route and channel without a success between. */
  readonly longestRateLimitedRun: number
  /** Messages that were created, by channel id. */
  readonly messages: Record<string, number>
  /** Edits of messages, by channel id. */
  readonly edits: Record<string, number>
  /** Requests whose nonce found a message that exists. */
  readonly repeatedNonces: number
  /** Connections to the gateway, sessions that were identified, and sessions that were resumed. */
  readonly gateway: { readonly connections: number; readonly identifies: number; readonly resumes: number }
  reset(): void
}

/** The twin's own view of the counters. */
export interface RecordedCounters extends Counters {
  readonly record: Recorder
}

export interface Recorder {
  request(route: string): void
  limited(route: string, bucket: string): void
  passed(bucket: string): void
  message(channelId: string): void
  edit(channelId: string): void
  repeatedNonce(): void
  gateway(what: 'connections' | 'identifies' | 'resumes'): void
}

export function createCounters(): RecordedCounters {
  let counts = empty()
  const runs = new Map<string, number>()

  const add = (record: Record<string, number>, key: string) => {
    record[key] = (record[key] ?? 0) + 1
  }

  return {
    get requests() {
      return counts.requests
    },
    get rateLimited() {
      return counts.rateLimited
    },
    get longestRateLimitedRun() {
      return counts.longestRun
    },
    get messages() {
      return counts.messages
    },
    get edits() {
      return counts.edits
    },
    get repeatedNonces() {
      return counts.repeatedNonces
    },
    get gateway() {
      return counts.gateway
    },
    reset() {
      counts = empty()
      runs.clear()
    },
    record: {
      request: (route) => add(counts.requests, route),
      limited(route, bucket) {
        add(counts.rateLimited, route)
        const run = (runs.get(bucket) ?? 0) + 1
        runs.set(bucket, run)
        counts.longestRun = Math.max(counts.longestRun, run)
      },
      passed: (bucket) => void runs.delete(bucket),
      message: (channelId) => add(counts.messages, channelId),
      edit: (channelId) => add(counts.edits, channelId),
      repeatedNonce() {
        counts.repeatedNonces++
      },
      gateway(what) {
        counts.gateway[what]++
      },
    },
  }
}

function empty() {
  return {
    requests: {} as Record<string, number>,
    rateLimited: {} as Record<string, number>,
    longestRun: 0,
    messages: {} as Record<string, number>,
    edits: {} as Record<string, number>,
    repeatedNonces: 0,
    gateway: { connections: 0, identifies: 0, resumes: 0 },
  }
}
