/** What happens to requests of one route. */
export interface RequestFault {
  /** How many requests are affected; 1 by default. */
  readonly times?: number
  /** Only requests with this value in their path, such as a channel's id. */
  readonly path?: string
}

export type RequestOutcome =
  | { readonly kind: 'fail'; readonly status: number }
  | { readonly kind: 'hang' }
  | { readonly kind: 'loseResponse' }
  | { readonly kind: 'delay'; readonly ms: number }
  | { readonly kind: 'rateLimit'; readonly retryAfterMs: number }

/** Disturbs requests. Routes are named as in the counters: `POST /channels/:channel/messages`. */
export interface RequestFaults {
  /** Answers with a status, such as 500 or 503, without doing the work. */
  fail(route: string, options?: RequestFault & { status?: number }): void
  /** Never answers. */
  hang(route: string, options?: RequestFault): void
  /** Does the work, then resets the connection instead of answering. */
  loseResponse(route: string, options?: RequestFault): void
  /** Does the work after a delay. */
  delay(route: string, ms: number, options?: RequestFault): void
  /** Answers with 429 whatever the bucket says. */
  rateLimit(route: string, retryAfterMs: number, options?: RequestFault): void
  clear(): void
}

export interface RequestFaultRules extends RequestFaults {
  /** What happens to the next request of a route; `undefined` without a fault. */
  next(route: string, path: string): RequestOutcome | undefined
}

interface Rule {
  readonly route: string
  readonly path?: string
  left: number
  readonly outcome: RequestOutcome
}

export function createRequestFaults(routes: readonly string[]): RequestFaultRules {
  const rules: Rule[] = []

  function add(route: string, outcome: RequestOutcome, { times = 1, path }: RequestFault = {}): void {
    if (!routes.includes(route)) {
      throw new Error(`the twin has no route "${route}"; its routes are:\n${routes.join('\n')}`)
    }
    rules.push({ route, path, left: times, outcome })
  }

  return {
    fail: (route, { status = 500, ...options } = {}) => add(route, { kind: 'fail', status }, options),
    hang: (route, options) => add(route, { kind: 'hang' }, options),
    loseResponse: (route, options) => add(route, { kind: 'loseResponse' }, options),
    delay: (route, ms, options) => add(route, { kind: 'delay', ms }, options),
    rateLimit: (route, retryAfterMs, options) => add(route, { kind: 'rateLimit', retryAfterMs }, options),
    clear: () => void rules.splice(0),
    next(route, path) {
      const rule = rules.find(
        (candidate) =>
          candidate.left > 0 &&
          candidate.route === route &&
          (candidate.path === undefined || path.split('/').includes(candidate.path)),
      )
      if (rule) rule.left--
      return rule?.outcome
    },
  }
}
