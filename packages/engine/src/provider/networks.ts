import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { SandboxRecord } from '@sandkasten/sdk/internal'
import type { NormalNetwork } from '@sandkasten/sdk/provider'
import type { Egress, EgressSandbox } from '../egress/egress.ts'
import type { EgressEventsOptions } from '../egress/events.ts'
import { closedPolicy } from '../egress/policy.ts'
import type { EgressEvent, EgressStats } from '../egress/wire.ts'
import type { IsolatorSpec } from '../isolators/isolator.ts'
import { trustVariables } from '../isolators/trust.ts'
import type { Sandboxes } from './disks/disks.ts'
import { extraOf, withExtra } from './spec.ts'

type Change = (record: SandboxRecord) => Promise<SandboxRecord>

/** The networks of sandboxes, as their records state them. Sandboxes without a policy cost nothing here. */
export class SandboxNetworks {
  readonly #egress: Egress | undefined
  readonly #sandboxes: Sandboxes

  constructor(egress: Egress | undefined, sandboxes: Sandboxes) {
    this.#egress = egress
    this.#sandboxes = sandboxes
  }

  /** Adds what the start of a sandbox with a policy needs. The gateway runs when this resolves. */
  async plan(record: SandboxRecord, spec: IsolatorSpec): Promise<IsolatorSpec> {
    const sandbox = this.#egressOf(record)
    if (!sandbox) return spec
    const { socket, owner, authority } = await this.#need().plan(sandbox)
    const ids = owner === undefined ? {} : { owner: { uid: owner, gid: owner } }
    const env = { ...trustVariables, ...spec.env }
    return { ...spec, env, authority, network: { policy: { socket, ...ids } } }
  }

  /** After a start, before any caller has the sandbox. */
  async admit(record: SandboxRecord): Promise<void> {
    const sandbox = this.#egressOf(record)
    if (sandbox) await this.#need().admit(sandbox)
  }

  /** Before a use. Without a gateway the sandbox works on, with a closed network. */
  async serve(record: SandboxRecord): Promise<void> {
    const sandbox = this.#egressOf(record)
    if (sandbox)
      await this.#need()
        .adopt(sandbox)
        .catch(() => {})
  }

  async ended(sandboxId: string): Promise<void> {
    await this.#egress?.ended(sandboxId)
  }

  /** Changes the record and the gateway together. Returns the network that is in force then. */
  async set(
    sandboxId: string,
    network: NormalNetwork,
    change: (change: Change, undo: (changed: SandboxRecord) => Promise<void>) => Promise<SandboxRecord>,
  ): Promise<NormalNetwork> {
    let before: EgressSandbox | undefined
    const changed = await change(
      async (record) => {
        const extra = extraOf(record)
        if (record.status === 'stopped') return withExtra(record, { ...extra, network, closed: undefined })
        if (network === extra.network) return record
        before = this.#egressOf(record)
        const policy = network === 'none' ? closedPolicy : network
        if (!before || policy === 'open') throw needsRestart(sandboxId, extra.network, network)
        await this.#need().change({ ...before, policy })
        return withExtra(record, { ...extra, network, closed: network === 'none' ? true : undefined })
      },
      async () => {
        if (before) await this.#need().change(before)
      },
    )
    return extraOf(changed).network
  }

  events(record: SandboxRecord, options: EgressEventsOptions): AsyncIterable<EgressEvent> {
    return this.#need().events(this.#withPolicy(record).sandboxId, options)
  }

  stats(record: SandboxRecord): Promise<EgressStats> {
    return this.#need().stats(this.#withPolicy(record))
  }

  async refreshSecrets(): Promise<void> {
    await this.#egress?.refreshSecrets()
  }

  /** All running sandboxes that have a policy. */
  async running(): Promise<EgressSandbox[]> {
    const records = await this.#sandboxes.records()
    const running = records.filter(({ status, leaving }) => !leaving && isRunning(status))
    return running.map((record) => this.#egressOf(record)).filter((sandbox) => sandbox !== undefined)
  }

  close(): void {
    this.#egress?.close()
  }

  #egressOf(record: SandboxRecord): EgressSandbox | undefined {
    const { network, closed } = extraOf(record)
    const policy = network === 'none' && closed ? closedPolicy : network
    if (typeof policy !== 'object') return undefined
    const { sandboxId, labels } = record
    return { sandboxId, labels, folder: path.resolve(this.#sandboxes.folderOf(sandboxId)), policy }
  }

  #withPolicy(record: SandboxRecord): EgressSandbox {
    const sandbox = this.#egressOf(record)
    if (sandbox) return sandbox
    throw new SandboxError('conflict', `The sandbox ${record.sandboxId} has no network policy.`, {
      sandboxId: record.sandboxId,
      hint: 'Create the sandbox with a network policy. One that allows nothing reaches nothing.',
    })
  }

  #need(): Egress {
    if (this.#egress) return this.#egress
    throw new SandboxError('unsupported', 'This engine cannot enforce a network policy.', {
      hint: 'Use network: none or open, or the isolator oci.',
    })
  }
}

const isRunning = (status: SandboxRecord['status']) => status === 'running' || status === 'paused'

function needsRestart(sandboxId: string, from: NormalNetwork, to: NormalNetwork): SandboxError {
  const name = (network: NormalNetwork) => (typeof network === 'object' ? 'a policy' : `“${network}”`)
  return new SandboxError(
    'conflict',
    `The network of a running sandbox cannot change from ${name(from)} to ${name(to)}.`,
    {
      sandboxId,
      hint: 'Stop the sandbox, set the network, and start it. The network of a sandbox with a policy can change while it runs.',
    },
  )
}
