import { randomBytes } from 'node:crypto'
import type { SandboxHandle, SandboxProvider } from '@sandkasten/sdk'

/** A sandbox of the double: an engine's sandbox and what the vendor knows of it. */
export interface Machine {
  readonly id: string
  readonly handle: SandboxHandle
  readonly template: string
  readonly internetAccess: boolean
  readonly createdAt: Date
  readonly env: Map<string, string>
  status: string
  /** Tokens by the time of their end. A new one does not end the older ones. */
  readonly tokens: Map<string, number>
  expiresAt: Date | undefined
  timer?: NodeJS.Timeout
}

export class Sandboxes {
  readonly #engine: SandboxProvider
  readonly #all = new Map<string, Machine>()
  /** The engine's id of each sandbox, also after its end. */
  readonly engineIds = new Map<string, string>()
  /** How long a token is valid. */
  tokenMs = 24 * 60 * 60_000
  /** What a new sandbox reports first. It runs already. */
  firstStatus = 'running'

  constructor(engine: SandboxProvider) {
    this.#engine = engine
  }

  get all(): Machine[] {
    return [...this.#all.values()]
  }

  get(id: string): Machine | undefined {
    return this.#all.get(id)
  }

  async create(options: {
    template: string
    internetAccess: boolean
    timeoutSeconds: number | undefined
    env: Readonly<Record<string, string>>
  }): Promise<Machine> {
    const network = options.internetAccess ? 'open' : 'none'
    const handle = await this.#engine.create({ network })
    const machine: Machine = {
      id: `${Date.now()}${randomBytes(4).toString('hex')}`,
      handle,
      template: options.template,
      internetAccess: options.internetAccess,
      createdAt: new Date(),
      env: new Map(Object.entries(options.env)),
      status: this.firstStatus,
      tokens: new Map(),
      expiresAt: undefined,
    }
    if (options.timeoutSeconds !== undefined) this.setTimeout(machine, options.timeoutSeconds)
    this.#all.set(machine.id, machine)
    this.engineIds.set(machine.id, handle.sandboxId)
    return machine
  }

  newToken(machine: Machine) {
    const token = randomBytes(24).toString('base64url')
    const expiresAt = Date.now() + this.tokenMs
    machine.tokens.set(token, expiresAt)
    return { auth_token: token, token_expires_at: new Date(expiresAt).toISOString() }
  }

  expireTokens({ tokens }: Machine): void {
    for (const token of tokens.keys()) tokens.set(token, Date.now() - 1)
  }

  /** At the end of its lifetime a sandbox is stopped, and keeps nothing. */
  setTimeout(machine: Machine, seconds: number): void {
    clearTimeout(machine.timer)
    machine.expiresAt = new Date(Date.now() + seconds * 1000)
    machine.timer = setTimeout(() => {
      machine.status = 'stopped'
      machine.handle.destroy().catch(() => {})
    }, seconds * 1000)
    machine.timer.unref()
  }

  async remove(machine: Machine): Promise<void> {
    clearTimeout(machine.timer)
    this.#all.delete(machine.id)
    await machine.handle.destroy()
  }

  async clear(): Promise<void> {
    await Promise.all(this.all.map((machine) => this.remove(machine)))
  }
}
