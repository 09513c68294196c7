import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { NormalPolicy } from '@sandkasten/sdk/provider'
import { Authorities } from './authorities.ts'
import type { ControlConnection } from './control.ts'
import { followEvents } from './events.ts'
import { Gateway } from './gateway.ts'
import { type HostOverrides, hostFacts, watchHost } from './host-facts.ts'
import { gatewayPolicy, secretNames } from './policy.ts'
import { checkSource, type SecretSource, usableValues, valuesOf } from './secrets.ts'
import { asStats, type EgressEvent, type EgressStats, type Fields, type HostFacts } from './wire.ts'

/** A running sandbox with a policy, as its record describes it. */
export interface EgressSandbox {
  readonly sandboxId: string
  /** Its folder, which has the key of its certificate authority. */
  readonly folder: string
  readonly labels: Readonly<Record<string, string>>
  readonly policy: NormalPolicy
}

export interface EgressOptions {
  /** For the sockets of the gateway and of sandboxes. */
  readonly folder: () => string
  readonly gateway: () => Promise<string>
  /** The gateway's user, if this process is root. */
  readonly user: (() => number) | undefined
  readonly secrets: SecretSource
  readonly host: HostOverrides
  readonly upstreamCa: readonly string[]
  /** All running sandboxes of this root that have a policy. */
  readonly running: () => Promise<readonly EgressSandbox[]>
}

/** What a start needs to know. */
export interface EgressPlan {
  /** The gateway connects here. */
  readonly socket: string
  /** The owner of the socket, if not this process's user. */
  readonly owner: number | undefined
  /** The certificate that the sandbox trusts, as PEM. */
  readonly authority: string
}

const MAX_SOCKET_PATH = 107

/**
 * Keeps the gateway informed about the sandboxes of this root. The gateway keeps nothing over a restart: each new
 * connection adds the sandboxes that it does not have, from their records. Secrets come from this process, so a
 * sandbox that another process serves gets its secrets again when that process connects.
 */
export class Egress {
  readonly #options: EgressOptions
  readonly #gateway: Gateway
  readonly #authorities = new Authorities()
  /** Sandboxes that this process has started, changed or used. */
  readonly #mine = new Map<string, EgressSandbox>()
  /** What the gateway of the current connection has. */
  #admitted = new Set<string>()
  /** As the gateway was last told. */
  #facts: HostFacts = { resolvers: [], own: [], hosts: {} }
  #stopWatching: (() => void) | undefined

  constructor(options: EgressOptions) {
    checkSource(options.secrets)
    this.#options = options
    const { user, gateway: binary } = options
    this.#gateway = new Gateway({
      folder: options.folder,
      binary,
      user,
      onConnected: (connection) => this.#restore(connection),
      isNeeded: () => this.#mine.size > 0,
    })
  }

  /** Runs before a start. The gateway runs when this resolves. */
  async plan(sandbox: EgressSandbox): Promise<EgressPlan> {
    const { sandboxId, folder } = sandbox
    const connection = await this.#gateway.connection()
    const socket = this.#socketOf(sandboxId)
    if (Buffer.byteLength(socket) > MAX_SOCKET_PATH)
      throw new SandboxError('invalid_argument', `runFolder: ${socket} is too long for a socket.`)
    const { cert } = await this.#authorities.in(folder, connection)
    return { socket, owner: this.#options.user?.(), authority: cert }
  }

  /** Runs after a start, and before any caller has the sandbox. */
  async admit(sandbox: EgressSandbox): Promise<void> {
    const connection = await this.#gateway.connection()
    await this.#add(connection, sandbox)
    this.#mine.set(sandbox.sandboxId, sandbox)
    this.#authorities.prepare(connection)
  }

  /** Makes sure that the gateway serves a sandbox that another process, or an earlier one, has started. */
  async adopt(sandbox: EgressSandbox): Promise<void> {
    const isNew = !this.#mine.has(sandbox.sandboxId)
    this.#mine.set(sandbox.sandboxId, sandbox)
    const connection = await this.#gateway.connection()
    // The connection may have restored it already.
    if (!this.#admitted.has(sandbox.sandboxId)) await this.#add(connection, sandbox)
    else if (isNew && secretNames(sandbox.policy).length > 0) await this.#update(connection, sandbox)
  }

  /** Replaces the policy of a running sandbox. Returns how many connections were closed. */
  async change(sandbox: EgressSandbox): Promise<number> {
    const connection = await this.#gateway.connection()
    if (!this.#admitted.has(sandbox.sandboxId)) await this.#add(connection, sandbox)
    const closed = await this.#update(connection, sandbox)
    this.#mine.set(sandbox.sandboxId, sandbox)
    return closed
  }

  /** Runs after the end of a sandbox. The gateway notices it by itself; this is for a restart that comes at once. */
  async ended(sandboxId: string): Promise<void> {
    this.#mine.delete(sandboxId)
    if (!this.#admitted.delete(sandboxId)) return
    const connection = await this.#gateway.connection()
    await connection.request('remove', { sandbox: sandboxId }).catch(ignoreUnknown)
  }

  /**
   * Asks for the secrets of all sandboxes that this process serves again. A value that cannot be used replaces the
   * earlier one, too: its requests are refused. Then this throws, after all sandboxes have their values.
   */
  async refreshSecrets(): Promise<void> {
    const withSecrets = [...this.#mine.values()].filter(({ policy }) => secretNames(policy).length > 0)
    if (withSecrets.length === 0) return
    const connection = await this.#gateway.connection()
    const refreshed = await Promise.allSettled(
      withSecrets.map(async (sandbox) => {
        const { problems } = await this.#refresh(connection, sandbox)
        if (problems.length > 0) throw problems[0]
      }),
    )
    const failed = refreshed.find((one) => one.status === 'rejected')
    if (failed) throw failed.reason
  }

  async stats(sandbox: EgressSandbox): Promise<EgressStats> {
    await this.adopt(sandbox)
    const found = (await this.#list()).find((one) => one.sandbox === sandbox.sandboxId)
    const { connections = 0, bytesIn = 0, bytesOut = 0, refused = 0 } = found ?? {}
    return { connections, bytesIn, bytesOut, refused }
  }

  events(
    sandboxId: string,
    options: { readonly after?: number; readonly follow?: boolean; readonly signal?: AbortSignal },
  ): AsyncIterable<EgressEvent> {
    return followEvents(this.#gateway, sandboxId, options)
  }

  /** Closes the connection. The gateway goes on while sandboxes live. */
  close(): void {
    this.#stopWatching?.()
    this.#mine.clear()
    this.#gateway.close()
  }

  async #restore(connection: ControlConnection): Promise<void> {
    this.#stopWatching?.()
    const { host } = this.#options
    this.#facts = hostFacts(host)
    await connection.request('host', { ...this.#facts })
    this.#stopWatching = watchHost(host, (facts) => {
      this.#facts = facts
      if (!connection.ended) connection.request('host', { ...facts }).catch(() => {})
    })
    this.#admitted = new Set((await listOf(connection)).map(({ sandbox }) => sandbox))
    const recorded = await this.#options.running()
    const all = new Map([...recorded, ...this.#mine.values()].map((one) => [one.sandboxId, one]))
    // A sandbox that has just ended, or a secret that is not available, must not keep the others out. The next use of
    // the sandbox tries again.
    await Promise.allSettled(
      [...all.values()].map(async (sandbox) => {
        if (!this.#admitted.has(sandbox.sandboxId)) await this.#add(connection, sandbox)
        else if (this.#mine.has(sandbox.sandboxId)) await this.#update(connection, sandbox)
      }),
    )
  }

  async #add(connection: ControlConnection, sandbox: EgressSandbox): Promise<void> {
    const { sandboxId, folder } = sandbox
    const ca = await this.#authorities.in(folder, connection)
    const { own } = this.#facts
    const fields = { ...(await this.#fieldsOf(sandbox)), ca, socket: this.#socketOf(sandboxId), own }
    await connection.request('add', fields)
    this.#admitted.add(sandboxId)
  }

  async #update(connection: ControlConnection, sandbox: EgressSandbox): Promise<number> {
    const { closed } = await connection.request('update', await this.#fieldsOf(sandbox))
    return typeof closed === 'number' ? closed : 0
  }

  async #refresh(connection: ControlConnection, { sandboxId, labels, policy }: EgressSandbox) {
    const { secrets, upstreamCa } = this.#options
    const used = await usableValues(secrets, secretNames(policy), { sandboxId, labels })
    const resolved = await gatewayPolicy(policy, upstreamCa)
    await connection.request('update', { sandbox: sandboxId, policy: resolved, secrets: used.values })
    return used
  }

  async #fieldsOf({ sandboxId, labels, policy }: EgressSandbox): Promise<Fields> {
    const names = secretNames(policy)
    const [resolved, secrets] = await Promise.all([
      gatewayPolicy(policy, this.#options.upstreamCa),
      valuesOf(this.#options.secrets, names, { sandboxId, labels }),
    ])
    return { sandbox: sandboxId, policy: resolved, ...(names.length > 0 ? { secrets } : {}) }
  }

  async #list() {
    return listOf(await this.#gateway.connection())
  }

  #socketOf(sandboxId: string): string {
    return path.join(this.#gateway.socketFolder, `${sandboxId}.sock`)
  }
}

async function listOf(connection: ControlConnection) {
  const { sandboxes } = await connection.request('list')
  const found = Array.isArray(sandboxes) ? sandboxes.map(asStats) : []
  return found.filter((one) => one !== undefined)
}

function ignoreUnknown(error: unknown): void {
  if (!SandboxError.is(error, 'not_found') && !SandboxError.is(error, 'connection_lost')) throw error
}
