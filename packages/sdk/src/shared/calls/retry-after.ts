/** Parses a `Retry-After` header, in seconds or as a date, to milliseconds. */
export function retryAfterOf(header: string | null | undefined): number | undefined {
  if (!header) return undefined
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - Date.now()
  return Number.isFinite(ms) && ms >= 0 ? Math.round(ms) : undefined
}
