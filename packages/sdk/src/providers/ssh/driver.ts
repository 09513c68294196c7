import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import { needGuestRuntime } from '../../core/guest-programs.ts'
import { SandboxError } from '../../errors.ts'
import { PortForwards } from '../../ports/index.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { keyOf, randomId } from '../../shared/ids.ts'
import { pageOf } from '../../shared/page.ts'
import type {
  CallOptions,
  CreateOption,
  ListSandboxesOpts,
  SandboxInfo,
  SandboxPage,
  SandboxStatus,
} from '../../spec/index.ts'
import { sshCapabilities } from './capabilities.ts'
import { SshPool } from './connection/pool.ts'
import { agentError } from './errors.ts'
import { Agent } from './guest/agent.ts'
import type { SshSettings } from './options.ts'
import { RunnerLinks } from './runner/programs.ts'
import { SshRunner } from './runner/runner.ts'
import { SshSandbox } from './sandbox.ts'

/** The host's state of a sandbox, and the record that this library stores there. */
export interface Known {
  readonly sandboxId: string
  readonly status: SandboxStatus
  readonly incarnation: string
  readonly expiresAt?: number
  readonly record: SandboxRecord
  /** The supervisor of this incarnation's programs: our runner or the agent's script. `crashed`: the runner was killed. */
  readonly workedBy: 'runner' | 'shell' | 'crashed'
}

interface SandboxRecord {
  readonly version: 1
  readonly name?: string
  readonly label?: string
  readonly labels: Readonly<Record<string, string>>
  readonly envVars: Readonly<Record<string, string>>
  readonly ports?: readonly number[]
  readonly createdAt: number
}

/** Sandboxes of one account on one host. All state is on the host, so several processes can use it at once. */
export class SshDriver implements ProviderDriver<typeof sshCapabilities> {
  readonly name = 'ssh'
  readonly isolation = 'none'
  readonly capabilities = sshCapabilities
  readonly createOptions: readonly CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'lifetimeMs',
    'runtime',
    'ports',
    'repo',
    'gitToken',
  ]
  /** There are no snapshots. */
  readonly snapshotInterrupts = false
  readonly pool: SshPool
  readonly agent: Agent
  readonly runner: SshRunner
  readonly links: RunnerLinks
  readonly #forwards = new Map<string, PortForwards>()

  constructor(settings: SshSettings) {
    this.pool = new SshPool(settings)
    this.agent = new Agent(this.pool, settings)
    this.runner = new SshRunner(this.agent, this.pool, settings)
    this.links = new RunnerLinks(this.agent)
  }

  async create(spec: CreateSpec, call: CallOptions): Promise<SshSandbox> {
    const { name, label, labels, envVars, ports, lifetimeMs, deferReady } = spec
    const record: SandboxRecord = {
      version: 1,
      name,
      label,
      labels,
      envVars,
      ports,
      createdAt: Date.now(),
    }
    const [sandboxId, incarnation] = [randomId(), randomId()]
    const life = lifetimeMs === undefined ? '-' : Math.ceil(lifetimeMs)
    const hash = name === undefined ? '-' : await keyOf(name)
    const { root } = await this.agent.facts()
    const runner = await this.runner.word()
    throwIfAborted(call.signal, 'Creating the sandbox')
    let said: string
    try {
      const words = [sandboxId, incarnation, life, hash, deferReady ? 0 : 1, runner]
      said = await this.agent.call('create', words, {
        input: [JSON.stringify(record)],
        sandboxId,
        what: name,
      })
      throwIfAborted(call.signal, 'Creating the sandbox')
    } catch (error) {
      // Also clean up when the response was lost: the host may have created the sandbox.
      if (!SandboxError.is(error, 'conflict')) await this.#clearUp(sandboxId, error)
      throw error
    }
    const workedBy = this.#worker(runner, workerFrom(said.trim()))
    const sandbox = new SshSandbox(
      this,
      { sandboxId, incarnation, record, status: 'running', workedBy },
      root,
    )
    if (spec.runtime === undefined) return sandbox
    try {
      await needGuestRuntime(this.name, sandbox, spec.runtime, call)
      return sandbox
    } catch (error) {
      await this.#clearUp(sandboxId, error)
      throw error
    }
  }

  async open(
    sandboxId: string,
    { resume }: { resume: boolean },
    { signal }: CallOptions,
  ): Promise<SshSandbox> {
    const { root } = await this.agent.facts()
    let known = await this.known(sandboxId, { signal })
    // Still being created: wait for the creator, or clean up if it died.
    for (let waited = 1; known.status === 'creating'; waited += 1) {
      throwIfAborted(signal)
      await new Promise((resolve) => setTimeout(resolve, Math.min(waited * 20, 500)))
      known = await this.known(sandboxId, { signal })
    }
    if (known.status === 'failed') {
      await this.destroy(sandboxId, {})
      throw agentError(71, { sandboxId, what: sandboxId })
    }
    if (known.status === 'stopped' && resume) known = await this.start(sandboxId, { signal })
    return new SshSandbox(this, known, root)
  }

  async find(name: string, { signal }: CallOptions): Promise<string | undefined> {
    const found = (await this.agent.call('find', [await keyOf(name)], { signal })).trim()
    return found === '' ? undefined : checkId(found)
  }

  async list(filter: ListSandboxesOpts, { signal }: CallOptions): Promise<SandboxPage> {
    const lines = (await this.agent.call('list', [], { signal })).split('\n').filter(Boolean)
    return pageOf(
      lines.map((line) => infoOf(this.#seen(knownFrom(line)))),
      filter,
    )
  }

  async destroy(sandboxId: string, { signal }: CallOptions): Promise<boolean> {
    if (!idPattern.test(sandboxId)) return false
    await this.#letGo(sandboxId)
    try {
      await this.agent.call('destroy', [sandboxId], { sandboxId, what: sandboxId, signal })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  async health({ signal }: CallOptions): Promise<boolean> {
    try {
      await this.agent.call('health', [], { signal })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'aborted', 'sdk_missing')) throw error
      return false
    }
  }

  async known(sandboxId: string, { signal }: CallOptions = {}): Promise<Known> {
    if (!idPattern.test(sandboxId)) throw agentError(71, { sandboxId, what: sandboxId })
    const line = await this.agent.call('state', [sandboxId], { sandboxId, what: sandboxId, signal })
    return this.#seen(knownFrom(line.trim()))
  }

  async info(sandboxId: string, call: CallOptions): Promise<SandboxInfo> {
    return infoOf(await this.known(sandboxId, call))
  }

  async start(sandboxId: string, { signal }: CallOptions): Promise<Known> {
    const incarnation = randomId()
    const runner = await this.runner.word()
    const line = await this.agent.call('start', [sandboxId, incarnation, runner], {
      sandboxId,
      what: sandboxId,
      signal,
    })
    const known = knownFrom(line.trim())
    // Report the worker only if this call started the sandbox.
    if (known.incarnation === incarnation) this.#worker(runner, known.workedBy)
    return known
  }

  async stop(sandboxId: string, incarnation: string, { signal }: CallOptions): Promise<void> {
    await this.#letGo(sandboxId)
    await this.agent.call('stop', [sandboxId, incarnation], { sandboxId, what: sandboxId, signal })
  }

  /** Ports belong to the host, and another program may listen after the sandbox has stopped. So each connection checks first. */
  forwards(sandboxId: string, check: () => Promise<void>): PortForwards {
    let forwards = this.#forwards.get(sandboxId)
    if (!forwards) {
      forwards = new PortForwards(async (port) => {
        await check().catch((error) => {
          if (SandboxError.is(error, 'not_running', 'interrupted', 'not_found')) void this.#letGo(sandboxId)
          throw error
        })
        return this.pool.forward(port)
      })
      this.#forwards.set(sandboxId, forwards)
    }
    return forwards
  }

  async close(): Promise<void> {
    for (const sandboxId of [...this.#forwards.keys()]) await this.#letGo(sandboxId)
    await this.links.close()
    this.pool.close()
  }

  #worker(asked: string, got: Known['workedBy']): Known['workedBy'] {
    if (asked !== '-' && got !== 'runner') this.runner.failed('it did not start there')
    return got
  }

  /** Reports both errors when the cleanup fails too. */
  async #clearUp(sandboxId: string, error: unknown): Promise<void> {
    await this.destroy(sandboxId, {}).catch((also) => {
      const { code, message } = error as SandboxError
      if (!SandboxError.is(error)) throw error
      throw new SandboxError(code, `${message} The cleanup failed too, so the sandbox may still exist.`, {
        provider: 'ssh',
        sandboxId,
        hint: `Destroy ${sandboxId} when the host is reachable again.`,
        cause: new AggregateError([error, also]),
      })
    })
  }

  /** Closes the ports of a stopped sandbox. */
  #seen(known: Known): Known {
    if (known.status === 'stopped' || known.status === 'failed') void this.#letGo(known.sandboxId)
    return known
  }

  async #letGo(sandboxId: string): Promise<void> {
    const forwards = this.#forwards.get(sandboxId)
    this.#forwards.delete(sandboxId)
    await forwards?.close()
    await this.links.close(sandboxId)
  }
}

const idPattern = /^[a-z2-7]{16}$/

function checkId(id: string): string {
  if (idPattern.test(id)) return id
  throw agentError(undefined, { what: 'an invalid sandbox id' })
}

/** Parses the agent's line `id status incarnation expiresAt record worker`. */
function knownFrom(line: string): Known {
  const [id = '', status = '', incarnation = '', expires = '', encoded = '', worker = ''] = line.split(' ')
  const sandboxId = checkId(id)
  let record: SandboxRecord
  try {
    record = JSON.parse(Buffer.from(encoded, 'base64').toString('utf8')) as SandboxRecord
  } catch (cause) {
    throw new SandboxError('provider_error', `The record of the sandbox ${sandboxId} is damaged.`, {
      provider: 'ssh',
      cause,
    })
  }
  if (record.version !== 1)
    throw new SandboxError('unsupported', `The sandbox ${sandboxId} was created by a newer version.`, {
      provider: 'ssh',
      hint: 'Update @sandkasten/sdk.',
    })
  const known = statuses.has(status) ? (status as SandboxStatus) : 'unknown'
  return {
    sandboxId,
    status: known,
    incarnation,
    record,
    workedBy: workerFrom(worker),
    expiresAt: /^\d+$/.test(expires) ? Number(expires) : undefined,
  }
}

const statuses = new Set(['creating', 'running', 'stopped', 'failed'])

function workerFrom(word: string): Known['workedBy'] {
  return word === 'runner' || word === 'crashed' ? word : 'shell'
}

function infoOf({ sandboxId, status, expiresAt, record, workedBy }: Known): SandboxInfo {
  const { name, label, labels, createdAt } = record
  return {
    id: `ssh:${sandboxId}`,
    sandboxId,
    status,
    name,
    label,
    rawStatus: status === 'stopped' && workedBy === 'crashed' ? 'crashed' : undefined,
    labels: { ...labels },
    createdAt: new Date(createdAt),
    expiresAt: expiresAt === undefined || status !== 'running' ? undefined : new Date(expiresAt),
  }
}
