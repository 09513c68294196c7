import { setTimeout as sleep } from 'node:timers/promises'
import type { Daemon } from '../daemon/daemon.ts'
import { LABEL } from '../daemon/labels.ts'

/** Called when a container may have ended. `told` is true if the daemon reported the end. */
type Listener = (told: boolean) => void

/** The body of a streaming response. */
type Answer = NodeJS.ReadableStream & { readonly socket?: { unref(): void } }

/**
 * Watches the ends of all our containers through one stream of the daemon's events. Rejected: a waiting call for each
 * container. Podman polls four times a second for each of them.
 *
 * An event only makes a listener ask the daemon for the state. So after a reconnect, which may have missed events,
 * all listeners are called. The watch keeps no process alive.
 */
export class EndWatch {
  private readonly daemon: Daemon
  private readonly owner: () => string
  private readonly listeners = new Map<string, Set<Listener>>()
  private running = false

  constructor(daemon: Daemon, owner: () => string) {
    this.daemon = daemon
    this.owner = owner
  }

  /** Returns a function that removes the listener. */
  listen(containerId: string, listener: Listener): () => void {
    const all = this.listeners.get(containerId) ?? new Set()
    this.listeners.set(containerId, all.add(listener))
    if (!this.running) void this.run()
    return () => {
      all.delete(listener)
      if (all.size === 0 && this.listeners.get(containerId) === all) this.listeners.delete(containerId)
    }
  }

  private async run(): Promise<void> {
    this.running = true
    for (let failures = 0; this.listeners.size > 0; ) {
      try {
        const answer = await this.open()
        failures = 0
        for (const all of this.listeners.values()) for (const listener of all) listener(false)
        await this.read(answer)
      } catch {
        failures += 1
      }
      await sleep(Math.min(50 * 2 ** failures, 10_000), undefined, { ref: false })
    }
    this.running = false
  }

  private async open(): Promise<Answer> {
    const filters = JSON.stringify({
      type: ['container'],
      // Podman sends `die` too, but filters by its own event name.
      event: ['die', 'died'],
      label: [`${LABEL.owner}=${this.owner()}`],
    })
    const docker = await this.daemon.docker()
    const answer: Answer = await docker.getEvents({ filters })
    answer.socket?.unref()
    return answer
  }

  private async read(answer: Answer): Promise<void> {
    let text = ''
    for await (const chunk of answer) {
      const lines = (text + String(chunk)).split('\n')
      // The last object may lack a newline.
      text = isWhole(lines.at(-1)!) ? '' : lines.pop()!
      for (const line of lines) this.tell(line)
      if (this.listeners.size === 0) return
    }
  }

  private tell(line: string): void {
    if (line.trim() === '') return
    const { id, Actor } = JSON.parse(line) as { id?: string; Actor?: { ID?: string } }
    for (const listener of this.listeners.get(Actor?.ID ?? id ?? '') ?? []) listener(true)
  }
}

function isWhole(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
