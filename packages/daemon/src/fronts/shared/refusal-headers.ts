import type { SandboxError } from '@sandkasten/sdk'

/** The headers of every refusal. */
export function refusalHeaders({ details }: SandboxError, request: { id: string }): Record<string, string> {
  const { retryAfterMs } = details
  return {
    'x-request-id': request.id,
    ...(typeof retryAfterMs === 'number'
      ? { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
      : {}),
  }
}

/** The hint if it names no calls of our own API, otherwise an empty text. Users of a front call the vendor's SDK. */
export function neutralHint({ hints }: SandboxError): string {
  return hints.http === hints.cli ? hints.http : ''
}
