import { SandboxError, type SecretValue } from '@sandkasten/sdk'
import type { Caller } from '../../keys/index.ts'
import type { Context, Sandbox, Session } from '../context.ts'
import type { Meant } from '../lifecycle.ts'
import { refuseBeyond, rulesOf } from '../limits/policy.ts'
import { networkOf } from '../plan.ts'
import { notUsable, refuseOther } from '../status.ts'
import type { Use } from '../use.ts'
import { type EgressEvent, EgressWatch, type Learned } from './egress-watch.ts'
import { learnedPolicy } from './learn.ts'
import { type Literal, literalOf } from './literals.ts'
import {
  checkSecrets,
  type GivenNetwork,
  isSecret,
  networkColumns,
  networkOfRow,
  providerNetwork,
  type SessionNetwork,
  secretUses,
} from './policy.ts'
import { isCovered } from './targets.ts'

/**
 * The networks of sessions. The row is the truth: it changes first, and a start of the daemon applies it again to
 * sandboxes whose change was interrupted.
 */
export class NetworksOfSessions {
  readonly #context: Context
  readonly #use: Use
  readonly watch: EgressWatch
  #stamp: string | undefined
  #dropAt = 0

  constructor(context: Context, use: Use) {
    this.#context = context
    this.#use = use
    this.watch = new EgressWatch(context)
    context.secrets.onChange = () => this.refreshSecrets()
  }

  /** Replaces the network of a live session. A stopped one gets it at its next start. */
  async set(caller: Caller, id: string, given: GivenNetwork, { incarnation }: Meant = {}): Promise<Session> {
    const { store, provider, live, events, secrets } = this.#context
    await this.#use.findHere(caller, id)
    return live.locked(id, async () => {
      const session = await this.#use.findHere(caller, id)
      refuseOther(session, incarnation)
      if (session.live === 0 || session.status === 'creating') throw notUsable(session)
      const rules = await rulesOf(this.#context, caller)
      const network = networkOf(rules, provider, given)
      refuseBeyond(rules, { network })
      if (secretUses(network).size > 0) checkSecrets(network, await secrets.known(caller))
      const changed = await store.sessions.update(id, undefined, networkColumns(network))
      try {
        await this.#apply(session, network)
      } catch (error) {
        const { network, network_policy } = session
        await store.sessions.update(id, undefined, { network, network_policy })
        throw error
      }
      const data = { by: `key:${caller.keyId}`, network: changed?.network ?? session.network }
      events.publish({ projectId: session.project_id, sessionId: id, type: 'session.network', data })
      return changed ?? session
    })
  }

  /** For fronts, whose clients send credentials as text: keeps the headers of transforms as secrets; see `literals.ts`. */
  async withKeptHeaders(caller: Caller, given: GivenNetwork): Promise<GivenNetwork> {
    if (typeof given === 'string' || !given.transform?.length) return given
    const rules = await rulesOf(this.#context, caller)
    const network = networkOf(rules, this.#context.provider, given)
    refuseBeyond(rules, { network })
    if (typeof network === 'string') return network
    // All are checked before the first one is kept.
    const wanted = network.transform.map(({ match, headers }) => ({
      match,
      headers: Object.entries(headers).map(
        ([name, value]) => [name, isSecret(value) ? value : literalOf(name, value)] as const,
      ),
    }))
    const transform = []
    for (const { match, headers } of wanted) {
      const kept: Record<string, string | SecretValue> = {}
      for (const [name, literal] of headers) kept[name] = await this.#kept(caller, literal, match.host)
      transform.push({ match, headers: kept })
    }
    return { ...network, transform }
  }

  /** Decisions after `after`, oldest first. `next` resumes after them. */
  async events(
    caller: Caller,
    id: string,
    { after = 0, limit, verdict }: { after?: number; limit: number; verdict?: string },
  ): Promise<{ events: EgressEvent[]; next: number }> {
    const sandboxId = await this.#withPolicy(caller, id)
    const all: EgressEvent[] = []
    for await (const event of this.#provided()(sandboxId, { after })) all.push(event)
    const last = all.at(-1)?.seq ?? after
    const events = all.filter((event) => verdict === undefined || event.verdict === verdict).slice(0, limit)
    return { events, next: events.length === limit ? events.at(-1)!.seq : last }
  }

  async *follow(
    caller: Caller,
    id: string,
    { after, verdict, signal }: { after?: number; verdict?: string; signal: AbortSignal },
  ): AsyncGenerator<EgressEvent> {
    const sandboxId = await this.#withPolicy(caller, id)
    for await (const event of this.#provided()(sandboxId, { after, follow: true, signal }))
      if (verdict === undefined || event.verdict === verdict) yield event
  }

  /** The policy that would have allowed what was allowed or audited so far. */
  async learned(caller: Caller, id: string): Promise<SessionNetwork> {
    const session = await this.#use.findHere(caller, id)
    const network = networkOfRow(session)
    if (typeof network === 'string') throw noPolicy(id)
    const found: Learned = new Map(this.watch.learned(id))
    if (session.status === 'running') {
      const sandboxId = await this.#withPolicy(caller, id)
      for await (const event of this.#provided()(sandboxId, { after: 0 })) EgressWatch.learn(found, event)
    }
    return learnedPolicy(network, found)
  }

  /** The value of a secret for one of our sandboxes. Undefined if it must not have it. */
  async secretOf(
    name: string,
    { sandboxId, sessionId }: { sandboxId: string; sessionId: string | undefined },
  ): Promise<string | undefined> {
    const { store, secrets, instanceId } = this.#context
    // Right after a create or a fork, the row does not know its sandbox yet.
    const row =
      (await store.sessions.withSandbox(instanceId, sandboxId)) ??
      (sessionId === undefined ? undefined : await store.sessions.get(sessionId))
    if (!row) return undefined
    const [secret] = (await secrets.known({ projectId: row.project_id })).filter((one) => one.name === name)
    const hosts = secretUses(networkOfRow(row)).get(name) ?? []
    const limits = secret?.hosts
    if (!secret || (limits && !hosts.every((host) => isCovered({ host }, limits)))) return undefined
    return (await secrets.values(row.project_id, [name]))[name]
  }

  /** Gives the sandboxes of this daemon the present values. */
  async refreshSecrets(): Promise<void> {
    await this.#context.provider
      .refreshSecrets?.()
      .catch((error) =>
        this.#context.log.warn({ err: error }, 'cannot pass on a changed secret; it is retried'),
      )
  }

  /** Runs regularly: follows new sessions, and notices secrets that another daemon has changed. */
  async tend(): Promise<void> {
    await this.watch.tend()
    if (performance.now() >= this.#dropAt) {
      this.#dropAt = performance.now() + dropEveryMs
      await this.#context.secrets.dropUnused()
    }
    if (this.watch.size === 0) return
    const stamp = await this.#context.store.secrets.stamp()
    if (this.#stamp !== undefined && stamp !== this.#stamp) await this.refreshSecrets()
    this.#stamp = stamp
  }

  /** Runs once at the start: finishes changes that the end of an earlier process has interrupted. */
  async recover(): Promise<void> {
    const { store, instanceId, provider, log } = this.#context
    if (!provider.capabilities.egress) return
    for (const session of await store.sessions.live(instanceId)) {
      if (session.sandbox_id === null || session.status === 'creating') continue
      try {
        const { network } = await this.#sandbox(session)
        const wanted = networkOfRow(session)
        if (network === undefined || isSame(network, providerNetwork(wanted, this.#context.config))) continue
        log.info({ session: session.id }, 'applying the network of a session again')
        await this.#apply(session, wanted)
      } catch (error) {
        log.warn({ session: session.id, err: error }, 'cannot check the network of a session')
      }
    }
  }

  async #kept(caller: Caller, literal: Literal | SecretValue, host: string): Promise<string | SecretValue> {
    if (typeof literal === 'string' || 'secret' in literal) return literal
    const { value, ...around } = literal
    return { secret: await this.#context.secrets.keep(caller, value, host), ...around }
  }

  async #apply(session: Session, network: SessionNetwork): Promise<void> {
    const wanted = providerNetwork(network, this.#context.config)
    const sandbox = await this.#sandbox(session)
    // A sandbox without the ability has no such method; the core then throws `unsupported`.
    await (sandbox as Sandbox & { setNetwork(network: unknown): Promise<void> }).setNetwork(wanted)
  }

  async #sandbox(session: Session): Promise<Sandbox> {
    const { provider, live } = this.#context
    const open = live.opened(session.id, session.incarnation)
    if (open && session.status === 'running') return open.sandbox
    return (await provider.get(session.sandbox_id!, { resume: false })) as Sandbox
  }

  async #withPolicy(caller: Caller, id: string): Promise<string> {
    const session = await this.#use.findHere(caller, id)
    if (session.network !== 'policy') throw noPolicy(id)
    if (session.sandbox_id === null || (session.status !== 'running' && session.status !== 'paused'))
      throw notUsable(session)
    return session.sandbox_id
  }

  #provided() {
    const { provider } = this.#context
    if (provider.egressEvents) return provider.egressEvents.bind(provider)
    throw new SandboxError('unsupported', 'This daemon records no egress events.', {
      hint: 'Use the isolator oci.',
    })
  }
}

const dropEveryMs = 600_000

function noPolicy(id: string): SandboxError {
  return new SandboxError('conflict', `The session ${id} has no network policy.`, {
    hint: {
      sdk: "Create it with a policy: network: { allow: ['github.com'] }.",
      http: 'Create it with a policy: {"network": {"allow": ["github.com"]}}.',
      cli: 'Create it with --allow.',
    },
  })
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b))
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  )
}
