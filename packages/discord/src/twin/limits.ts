/** A bucket of requests: `limit` requests within `windowMs`, counted from the first one. */
export interface Bucket {
  readonly limit: number
  readonly windowMs: number
}

/** What Discord enforces. Tests may change each value with `startTwin({ limits })`. */
export interface TwinLimits {
  /** How long a bot may take to acknowledge an interaction. */
  acknowledgeMs: number
  /** How long the token of an interaction is valid. */
  interactionTokenMs: number
  /** How long a nonce with `enforce_nonce` finds the first message. */
  nonceMs: number
  fileBytes: number
  filesPerMessage: number
  /** Whether the twin limits the rate of requests. */
  hasRateLimits: boolean
  /** Requests of one bot to all routes in a second. 0 turns it off. Routes of interactions do not count. */
  globalPerSecond: number
  /** Rate limits by route, for example `POST /channels/:channel/messages`. An entry of the caller replaces the default. */
  buckets: Record<string, Bucket>
  /** The bucket of all other routes. */
  defaultBucket: Bucket
  /** Changes of a channel's or thread's name and topic, which Discord limits apart from its other changes. */
  renameBucket: Bucket
  heartbeatIntervalMs: number
  /** How long a session can be resumed after its connection was lost. */
  resumeMs: number
  /** Events that a session keeps for a resume. */
  resumeEvents: number
}

export function defaultLimits(): TwinLimits {
  return {
    acknowledgeMs: 3000,
    interactionTokenMs: 15 * 60_000,
    nonceMs: 3 * 60_000,
    fileBytes: 10 * 1024 * 1024,
    filesPerMessage: 10,
    hasRateLimits: true,
    globalPerSecond: 50,
    buckets: {
      'POST /channels/:channel/messages': { limit: 5, windowMs: 5000 },
      'PATCH /channels/:channel/messages/:message': { limit: 5, windowMs: 5000 },
      'DELETE /channels/:channel/messages/:message': { limit: 5, windowMs: 1000 },
      'POST /channels/:channel/typing': { limit: 5, windowMs: 5000 },
      'PUT /channels/:channel/messages/:message/reactions/:emoji/@me': { limit: 1, windowMs: 250 },
      'DELETE /channels/:channel/messages/:message/reactions/:emoji/@me': { limit: 1, windowMs: 250 },
      'PATCH /channels/:channel': { limit: 5, windowMs: 5000 },
      'POST /webhooks/:application/:token': { limit: 5, windowMs: 5000 },
      'PATCH /webhooks/:application/:token/messages/:message': { limit: 5, windowMs: 5000 },
      'DELETE /webhooks/:application/:token/messages/:message': { limit: 5, windowMs: 1000 },
    },
    defaultBucket: { limit: 50, windowMs: 1000 },
    renameBucket: { limit: 2, windowMs: 10 * 60_000 },
    heartbeatIntervalMs: 41_250,
    resumeMs: 3 * 60_000,
    resumeEvents: 10_000,
  }
}
