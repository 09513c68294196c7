import { SandboxError } from '@sandkasten/sdk'

const mostPerSession = 256

/** Tracks open visits by port. Limits them per session, and cuts them when the port closes. */
export class Connections {
  readonly #open = new Map<string, Map<number, Set<() => void>>>()

  /** Calls `cut` when the port is closed or its rules change. Call the returned function when the visit ends. */
  enter(sessionId: string, port: number, cut: () => void): () => void {
    const ports = this.#open.get(sessionId) ?? new Map<number, Set<() => void>>()
    const count = [...ports.values()].reduce((sum, { size }) => sum + size, 0)
    if (count >= mostPerSession)
      throw new SandboxError(
        'rate_limited',
        `The session has ${mostPerSession} open connections from outside.`,
        {
          hint: 'Close some of them.',
        },
      )
    this.#open.set(sessionId, ports)
    const cuts = ports.get(port) ?? new Set()
    ports.set(port, cuts)
    cuts.add(cut)
    return () => {
      cuts.delete(cut)
      if (cuts.size === 0 && ports.get(port) === cuts) ports.delete(port)
      if (ports.size === 0 && this.#open.get(sessionId) === ports) this.#open.delete(sessionId)
    }
  }

  cut(sessionId: string, port: number): void {
    for (const cut of [...(this.#open.get(sessionId)?.get(port) ?? [])]) cut()
  }

  cutAll(): void {
    for (const ports of [...this.#open.values()])
      for (const cuts of [...ports.values()]) for (const cut of [...cuts]) cut()
  }

  get size(): number {
    let size = 0
    for (const ports of this.#open.values()) for (const cuts of ports.values()) size += cuts.size
    return size
  }
}
