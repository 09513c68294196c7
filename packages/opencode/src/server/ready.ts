import { stripVTControlCharacters } from 'node:util'
import { type SandboxCore, SandboxError } from '@sandkasten/sdk'
import type { Settings } from '../bootstrap/settings.ts'
import type { FollowedProcess } from './follow.ts'
import { type Health, waitForHealth } from './health.ts'

/** Waits for health, and fails as soon as the process ends. Errors have the last output of the server. */
export async function becomesHealthy(
  handle: SandboxCore,
  url: string,
  headers: Readonly<Record<string, string>>,
  followed: FollowedProcess,
  { agent, redact, deadlineMs }: Settings,
  signal: AbortSignal,
): Promise<Health> {
  const stop = new AbortController()
  const both = AbortSignal.any([signal, stop.signal])
  const where = { provider: handle.provider, sandboxId: handle.sandboxId }
  const output = () => (followed.tail === '' ? '' : `\nLast output:\n${redact(shown(followed.tail))}`)
  const ended = followed.ended.then(({ exitCode, signal: killed, oom }) => {
    const how = oom
      ? 'was killed for lack of memory'
      : killed
        ? `was killed by ${killed}`
        : `ended with exit code ${exitCode}`
    throw new SandboxError('unavailable', `${agent.title} ${how} before it was ready.${output()}`, {
      ...where,
      retryable: false,
      details: { exitCode, ...(killed === undefined ? {} : { signal: killed }) },
      hint: oom
        ? 'Give the sandbox at least 1 GB of memory.'
        : 'The last output of the program has the reason.',
    })
  })
  try {
    return await Promise.race([waitForHealth(url, { headers, signal: both, deadlineMs }), ended])
  } catch (error) {
    if (signal.aborted)
      throw new SandboxError('timeout', `${agent.title} was not ready in time.${output()}`, {
        ...where,
        cause: error,
        hint: 'Raise deadlineMs, or give the sandbox more memory and processors.',
      })
    throw error
  } finally {
    stop.abort()
  }
}

/** Output of a program, without control sequences of terminals. */
function shown(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/[^\P{Cc}\n\t]/gu, '?')
    .slice(-2000)
}
