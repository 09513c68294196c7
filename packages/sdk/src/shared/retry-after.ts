/** What a `Retry-After` says, in ms: seconds, or a date. */
export function retryAfterOf(header: string | null | undefined): number | undefined {
  if (!header) return undefined
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - Date.now()
  return Number.isFinite(ms) && ms >= 0 ? Math.round(ms) : undefined
}
