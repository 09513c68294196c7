import { AsyncLocalStorage } from 'node:async_hooks'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

/** The request that the current code runs for, even if the code outlives it. */
export interface RequestScope {
  readonly id: string
  /** Responds with this error. Undefined after the response was sent. */
  fail?: ((error: unknown) => void) | undefined
}

export const requestScope = new AsyncLocalStorage<RequestScope>()

/**
 * The last resort for errors that no code handles. The request that caused the error fails, and the daemon keeps
 * serving the others. Each error is logged with its stack and counted in `sandkasten_defects_total`. Only for a process
 * that belongs to the daemon. Returns a function that removes the handlers.
 */
export function catchDefects(log: Log, metrics: Metrics): () => void {
  const handler = (kind: string) => (error: unknown) => {
    const scope = requestScope.getStore()
    metrics.count('sandkasten_defects_total', { kind })
    log.error({ err: error, kind, request: scope?.id }, 'unhandled error')
    scope?.fail?.(error)
  }
  const [onRejection, onException] = [handler('rejection'), handler('exception')]
  process.on('unhandledRejection', onRejection)
  process.on('uncaughtException', onException)
  return () => {
    process.off('unhandledRejection', onRejection)
    process.off('uncaughtException', onException)
  }
}
