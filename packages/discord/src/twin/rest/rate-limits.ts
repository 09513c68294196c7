import { createHash } from 'node:crypto'
import type { Core } from '../core.ts'
import type { Bucket } from '../limits.ts'

export interface Verdict {
  readonly headers: Record<string, string>
  /** Set when the request is refused. */
  readonly retryAfterMs?: number
  readonly isGlobal: boolean
  readonly scope: 'user' | 'global' | 'shared'
  readonly key: string
}

export interface RateLimitRequest {
  readonly route: string
  readonly params: Readonly<Record<string, string>>
  /** The bot's id; absent for routes of interactions. */
  readonly botId?: string
  readonly isRename: boolean
}

interface Window {
  used: number
  resetAt: number
}

/** Counts requests in Discord's buckets: one per route and channel, guild or webhook, and a global one per bot. */
export function createRateLimits(core: Core): (request: RateLimitRequest) => Verdict {
  const windows = new Map<string, Window>()

  function take(key: string, { limit, windowMs }: Bucket): Window & { isFull: boolean } {
    const now = core.clock.now()
    let window = windows.get(key)
    if (!window || window.resetAt <= now) {
      window = { used: 0, resetAt: now + windowMs }
      windows.set(key, window)
    }
    const isFull = window.used >= limit
    if (!isFull) window.used++
    return { ...window, isFull }
  }

  return ({ route, params, botId, isRename }) => {
    const { limits } = core
    if (!limits.hasRateLimits) return { headers: {}, isGlobal: false, scope: 'user', key: route }
    const isCallback = route.startsWith('POST /interactions/')
    if (botId && limits.globalPerSecond > 0) {
      const all = take(`global ${botId}`, { limit: limits.globalPerSecond, windowMs: 1000 })
      if (all.isFull) {
        const retryAfterMs = Math.max(1, all.resetAt - core.clock.now())
        return { headers: {}, retryAfterMs, isGlobal: true, scope: 'global', key: `global ${botId}` }
      }
    }
    const major = params.channel ?? params.guild ?? params.token ?? ''
    const key = `${route} ${major} ${botId ?? ''}`
    const bucket = limits.buckets[route] ?? limits.defaultBucket
    const window = take(key, bucket)
    const headers = headersOf(core, route, bucket, window)
    if (!window.isFull && isRename) {
      const renames = take(`rename ${key}`, limits.renameBucket)
      if (renames.isFull) {
        const retryAfterMs = Math.max(1, renames.resetAt - core.clock.now())
        return { headers, retryAfterMs, isGlobal: false, scope: 'user', key: `rename ${key}` }
      }
    }
    if (!window.isFull || isCallback)
      return { headers: isCallback ? {} : headers, isGlobal: false, scope: 'user', key }
    return {
      headers,
      retryAfterMs: Math.max(1, window.resetAt - core.clock.now()),
      isGlobal: false,
      scope: 'user',
      key,
    }
  }
}

function headersOf(
  core: Core,
  route: string,
  { limit }: Bucket,
  { used, resetAt }: Window,
): Record<string, string> {
  return {
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(Math.max(0, limit - used)),
    'x-ratelimit-reset': (resetAt / 1000).toFixed(3),
    'x-ratelimit-reset-after': (Math.max(0, resetAt - core.clock.now()) / 1000).toFixed(3),
    'x-ratelimit-bucket': createHash('md5').update(route).digest('hex'),
  }
}
