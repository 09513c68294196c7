import { setTimeout as sleep } from 'node:timers/promises'
import { RunnerClient, type TaskOutput } from '@sandkasten/runner-client'
import type { SandboxRecord } from '@sandkasten/sdk/internal'
import { PortForwards } from '@sandkasten/sdk/internal'
import type { IsolatedSandbox } from '../isolators/isolator.ts'
import { PortDialer } from './port-dialer.ts'

/** A running sandbox, and this process's connections to it. */
export interface LiveSandbox {
  readonly incarnation: string
  readonly isolated: Promise<IsolatedSandbox>
  readonly dialer: PortDialer
  readonly forwards: PortForwards
  /** Streams into the stdin of its processes, by process id. */
  readonly writers: Map<string, TaskOutput>
  client: Promise<RunnerClient> | undefined
  ended: boolean
}

/**
 * The running sandboxes that this process is connected to, one entry for each. Nothing here is the only copy: another
 * process, or this one after a restart, attaches again.
 */
export class LiveSandboxes {
  readonly #live = new Map<string, LiveSandbox>()
  readonly #onEnded: (sandboxId: string) => void

  /** `onEnded` is called when a sandbox ends that was not removed with `take`. */
  constructor(onEnded: (sandboxId: string) => void) {
    this.#onEnded = onEnded
  }

  get(sandboxId: string): LiveSandbox | undefined {
    return this.#live.get(sandboxId)
  }

  /** Removes the entry: its sandbox is about to be stopped. */
  async take(sandboxId: string): Promise<IsolatedSandbox | undefined> {
    const live = this.#live.get(sandboxId)
    this.#live.delete(sandboxId)
    await live?.forwards.close()
    await live?.dialer.close()
    return live?.isolated.catch(() => undefined)
  }

  add({ sandboxId, incarnation }: SandboxRecord, isolated: Promise<IsolatedSandbox>): LiveSandbox {
    const dialer = new PortDialer(() => connect(isolated, () => {}))
    const live: LiveSandbox = {
      incarnation,
      isolated,
      ended: false,
      client: undefined,
      writers: new Map(),
      dialer,
      forwards: new PortForwards((port) => dialer.dial(port)),
    }
    this.#live.set(sandboxId, live)
    const forget = () => {
      live.ended = true
      if (this.#live.get(sandboxId) !== live) return false
      this.#live.delete(sandboxId)
      return true
    }
    const ended = () => {
      if (!forget()) return
      void dialer.close()
      this.#onEnded(sandboxId)
    }
    isolated.then((isolated) => isolated.ended.then(ended), forget)
    return live
  }

  /** The connection to the runner, which all handles share. */
  client(live: LiveSandbox): Promise<RunnerClient> {
    live.client ??= connect(live.isolated, () => {
      live.client = undefined
      live.writers.clear()
    })
    return live.client
  }

  async close(): Promise<void> {
    const all = [...this.#live.values()]
    this.#live.clear()
    await Promise.all(
      all.map(async ({ forwards, dialer, client }) => {
        await forwards.close()
        await dialer.close()
        await client?.then(
          (client) => client.close(),
          () => {},
        )
      }),
    )
  }
}

/** Whether the sandbox has ended, or ends within a second: the connection is lost before the end is reported. */
export function endsSoon({ isolated }: LiveSandbox): Promise<boolean> {
  const ended = isolated.then(
    ({ ended }) => ended.then(() => true),
    () => true,
  )
  const late = new AbortController()
  const timeout = sleep(1_000, false, { signal: late.signal }).catch(() => false)
  return Promise.race([ended, timeout]).finally(() => late.abort())
}

async function connect(isolated: Promise<IsolatedSandbox>, onClosed: () => void): Promise<RunnerClient> {
  try {
    const client = await RunnerClient.connect(await (await isolated).connect())
    void client.connection.closed.then(onClosed)
    return client
  } catch (error) {
    onClosed()
    throw error
  }
}
