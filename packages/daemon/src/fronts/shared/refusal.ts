import type { SandboxError } from '@sandkasten/sdk'

/** What every refusal says beside its body. */
export function refusalHeaders({ details }: SandboxError, request: { id: string }): Record<string, string> {
  const { retryAfterMs } = details
  return {
    'x-request-id': request.id,
    ...(typeof retryAfterMs === 'number'
      ? { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
      : {}),
  }
}

/** A hint that names no calls of ours; empty where there is none. Users of a front call the vendor's SDK. */
export function neutralHint({ hints }: SandboxError): string {
  return hints.http === hints.cli ? hints.http : ''
}
