/**
 * Checks the health of a sandbox from inside a Worker: this module imports nothing.
 *
 * `exec('true')` is the real probe: it reaches a process in the container. It also starts a sleeping container, which
 * then costs money, and it may hang. So the state is queried first, which the Durable Object answers without its
 * container, and everything has a time limit.
 *
 *   getState ──▶ stopped ──▶ 'asleep'   (nothing was started; with `wake: true` it continues)
 *            └─▶ running ──▶ exec('true') ──▶ 'healthy' | 'unhealthy' | 'timeout'
 *
 * If the container falls asleep between the two, the probe wakes it.
 */

/** The part of the SDK's sandbox that is used; a type test checks it against the real one. */
export interface ProbeTarget {
  exec(command: string, options?: { timeout?: number }): Promise<{ exitCode: number }>
  getState(): Promise<{ status: string }>
}

export interface ProbeOptions {
  /** Time limit of the whole probe. With `wake`, allow some seconds for a cold start. */
  timeoutMs?: number
  /** Start a sleeping container to probe it. */
  wake?: boolean
}

export interface Probe {
  status: 'healthy' | 'asleep' | 'unhealthy' | 'timeout'
  /** The container's state before the probe, in Cloudflare's words; undefined if unknown. */
  state: string | undefined
  /** Undefined if no command ran to completion. */
  exitCode: number | undefined
  durationMs: number
  error: unknown
}

/** Never throws because of the sandbox: problems are part of the result. */
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

/** Throws with the reason unless the sandbox answers. `asleep` counts as unreachable unless `wake` is set. */
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
