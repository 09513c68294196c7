/**
 * Is a sandbox well? For use inside a Worker: this module imports nothing.
 *
 * `exec('true')` is the honest probe: it goes all the way to a process in the container. It also starts a sleeping
 * container, which is billed from then on, and it may hang. So the state is asked first, which the Durable Object
 * answers without its container, and everything has a time limit.
 *
 *   getState ──▶ stopped ──▶ 'asleep'   (nothing was started; with `wake: true` it goes on)
 *            └─▶ running ──▶ exec('true') ──▶ 'healthy' | 'unhealthy' | 'timeout'
 *
 * Between the two a container may still fall asleep; then the probe does wake it.
 */

/** The part of the SDK's sandbox that is called; a type test holds the real one against it. */
export interface ProbeTarget {
  exec(command: string, options?: { timeout?: number }): Promise<{ exitCode: number }>
  getState(): Promise<{ status: string }>
}

export interface ProbeOptions {
  /** For the whole probe. A cold start takes some seconds: allow for it with `wake`. */
  timeoutMs?: number
  /** Start a sleeping container to ask it. */
  wake?: boolean
}

export interface Probe {
  status: 'healthy' | 'asleep' | 'unhealthy' | 'timeout'
  /** The container's state before the probe, in Cloudflare's words; undefined when it could not be asked. */
  state: string | undefined
  /** Undefined when no command ran to its end. */
  exitCode: number | undefined
  durationMs: number
  /** What was thrown, for `unhealthy`. */
  error: unknown
}

/** Never throws on account of the sandbox: what is wrong with it is the answer. */
export async function probeSandbox(sandbox: ProbeTarget, options: ProbeOptions = {}): Promise<Probe> {
  const { timeoutMs = 10_000, wake = false } = options
  const start = Date.now()
  const probe: Probe = {
    status: 'unhealthy',
    state: undefined,
    exitCode: undefined,
    durationMs: 0,
    error: undefined,
  }
  let timer: ReturnType<typeof setTimeout> | undefined
  const expired = new Promise<'timeout'>((resolve) => {
    timer = setTimeout(() => resolve('timeout'), timeoutMs)
  })
  try {
    probe.status = await Promise.race([ask(sandbox, wake, timeoutMs, probe), expired])
  } catch (error) {
    probe.error = error
  } finally {
    if (timer !== undefined) clearTimeout(timer)
  }
  return { ...probe, durationMs: Date.now() - start }
}

/** Throws with the reason unless the sandbox answers; an `asleep` one counts as unreachable unless `wake` is set. */
export async function assertHealthy(sandbox: ProbeTarget, options: ProbeOptions = {}): Promise<Probe> {
  const probe = await probeSandbox(sandbox, options)
  if (probe.status === 'healthy') return probe
  const detail = probe.exitCode === undefined ? '' : `, exit code ${probe.exitCode}`
  throw new Error(`sandbox ${probe.status} after ${probe.durationMs} ms${detail}`, { cause: probe.error })
}

async function ask(
  sandbox: ProbeTarget,
  wake: boolean,
  timeoutMs: number,
  probe: Probe,
): Promise<Probe['status']> {
  const { status } = await sandbox.getState()
  probe.state = status
  const isUp = status === 'running' || status === 'healthy'
  if (!isUp && !wake) return 'asleep'
  const { exitCode } = await sandbox.exec('true', { timeout: timeoutMs })
  probe.exitCode = exitCode
  return exitCode === 0 ? 'healthy' : 'unhealthy'
}
