import { type ProcessCore, type SandboxCore, SandboxError, supports } from '@sandkasten/sdk'

/**
 * The process of an agent's server in a sandbox. Its id ends in a number that grows with each start. So callers in
 * several processes that start the next one at the same time get the same process.
 */
export interface Generations {
  /** The number for the next start. */
  readonly next: number
  readonly running?: ProcessCore
}

const mostProcesses = 10_000

/** What all ids of one server have in common. Some providers find processes of earlier starts of the sandbox by id. */
export interface ServerId {
  readonly agent: string
  readonly port: number
  /** The start of the sandbox. */
  readonly start: string
}

export function execIdOf({ agent, port, start }: ServerId, generation: number): string {
  return `${agent}-${port}-${start}-${generation}`
}

export async function findGenerations(
  handle: SandboxCore,
  id: ServerId,
  signal: AbortSignal,
): Promise<Generations> {
  // Without the ability, a server that runs is found by its port.
  if (!supports(handle, 'reattach')) return { next: Math.floor(Date.now() / 1000) }
  const prefix = execIdOf(id, 0).slice(0, -1)
  const all = (await handle.listProcesses({ signal })).slice(0, mostProcesses).flatMap((info) => {
    const number = info.execId.startsWith(prefix) ? Number(info.execId.slice(prefix.length)) : Number.NaN
    return Number.isSafeInteger(number) ? [{ info, number }] : []
  })
  const next = Math.max(0, ...all.map(({ number }) => number)) + 1
  const last = all.find(({ number, info }) => number === next - 1 && info.running)
  if (last === undefined) return { next }
  try {
    return { next, running: await handle.getProcess(last.info.execId, { signal }) }
  } catch (error) {
    if (SandboxError.is(error, 'not_found')) return { next }
    throw error
  }
}

/** Ends the server and everything that it started. Waits until it has ended. */
export async function endProcess(process: ProcessCore, signal: AbortSignal): Promise<void> {
  if (!(await process.kill('SIGTERM', { signal }))) return
  try {
    await process.wait({ collect: false, timeoutMs: graceMs, signal })
  } catch (error) {
    if (!SandboxError.is(error, 'timeout')) throw error
    await process.kill('SIGKILL', { signal })
    await process.wait({ collect: false, timeoutMs: graceMs, signal })
  }
}

const graceMs = 5000
