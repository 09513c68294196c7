import type { CreateSpec, ProviderDriver, SandboxDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { pageOf } from '../../shared/page.ts'
import { noRuntime } from '../../shared/runtime.ts'
import type {
  Ability,
  CallOptions,
  CreateOption,
  ListSandboxesOpts,
  SandboxPage,
  SnapshotInfo,
} from '../../spec/index.ts'
import type { MemoryCapabilities } from './capabilities.ts'
import { copyDirectory } from './machine/virtual-files.ts'
import type { MemoryProviderOptions } from './options.ts'
import { MemorySandbox } from './sandbox.ts'
import { SandboxBinding } from './sandbox-handle.ts'
import type { SharedState } from './shared-state.ts'

export class MemoryDriver implements ProviderDriver<MemoryCapabilities> {
  readonly name = 'memory'
  readonly isolation = 'simulated'
  readonly capabilities: MemoryCapabilities
  readonly createOptions: readonly CreateOption[]
  readonly snapshotInterrupts: boolean
  readonly #sharedState: SharedState
  readonly #runtimes: readonly string[]

  constructor(sharedState: SharedState, options: MemoryProviderOptions) {
    this.#sharedState = sharedState
    this.#runtimes = options.runtimes ?? ['node24', 'node22', 'python3.13']
    this.capabilities = capabilitiesOf(options)
    this.snapshotInterrupts = sharedState.snapshotInterrupts
    this.createOptions = createOptionsOf(this.capabilities, options.createOptions ?? [])
  }

  async create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    await this.#sharedState.faults.enter('create', undefined, call.signal)
    throwIfAborted(call.signal, 'Creating the sandbox')
    if (spec.runtime !== undefined && !this.#runtimes.includes(spec.runtime))
      throw noRuntime(this.name, spec.runtime, this.#runtimes)
    const saved = spec.snapshotId === undefined ? undefined : this.#sharedState.snapshots.get(spec.snapshotId)
    if (spec.snapshotId !== undefined && !saved)
      throw notFound(
        `The snapshot ${spec.snapshotId} does not exist.`,
        'List snapshots with provider.listSnapshots().',
      )
    if (spec.name !== undefined && this.#byName(spec.name)) {
      throw new SandboxError('conflict', `A sandbox named “${spec.name}” exists already.`, {
        provider: this.name,
        details: { name: spec.name },
      })
    }
    const id = this.#sharedState.id('sandbox')
    const sandbox = new MemorySandbox(this.#sharedState, id, spec, {
      root: saved && copyDirectory(saved.root),
      creating: spec.deferReady,
    })
    this.#sharedState.sandboxes.set(id, sandbox)
    return new SandboxBinding(sandbox)
  }

  async open(sandboxId: string, { resume }: { resume: boolean }, call: CallOptions): Promise<SandboxDriver> {
    await this.#sharedState.faults.enter('get', sandboxId, call.signal)
    const sandbox = this.#sharedState.sandboxes.get(sandboxId)
    await sandbox?.ready()
    if (!sandbox || sandbox.status === 'destroyed') throw notFound(`The sandbox ${sandboxId} does not exist.`)
    if (resume && sandbox.status === 'stopped') sandbox.start()
    if (resume && sandbox.status === 'paused') sandbox.resume()
    return new SandboxBinding(sandbox)
  }

  async find(name: string, call: CallOptions): Promise<string | undefined> {
    await this.#sharedState.faults.enter('find', undefined, call.signal)
    return this.#byName(name)?.id
  }

  async list(filter: ListSandboxesOpts, call: CallOptions): Promise<SandboxPage> {
    await this.#sharedState.faults.enter('list', undefined, call.signal)
    return pageOf(
      [...this.#sharedState.sandboxes.values()].map((sandbox) => sandbox.info()),
      filter,
    )
  }

  async destroy(sandboxId: string, call: CallOptions): Promise<boolean> {
    await this.#sharedState.faults.enter('destroy', sandboxId, call.signal)
    const sandbox = this.#sharedState.sandboxes.get(sandboxId)
    sandbox?.destroy()
    return sandbox !== undefined
  }

  async health(call: CallOptions): Promise<boolean> {
    await this.#sharedState.faults.enter('health', undefined, call.signal)
    return true
  }

  async listSnapshots(call: CallOptions): Promise<SnapshotInfo[]> {
    await this.#sharedState.faults.enter('listSnapshots', undefined, call.signal)
    return [...this.#sharedState.snapshots.values()].map(({ info }) => ({ ...info }))
  }

  async deleteSnapshot(snapshotId: string, call: CallOptions): Promise<boolean> {
    await this.#sharedState.faults.enter('deleteSnapshot', undefined, call.signal)
    return this.#sharedState.snapshots.delete(snapshotId)
  }

  #byName(name: string): MemorySandbox | undefined {
    for (const sandbox of this.#sharedState.sandboxes.values())
      if (sandbox.recipe.name === name) return sandbox
    return undefined
  }
}

const abilities: readonly Ability[] = [
  'stdin',
  'mergedOutput',
  'orderedOutput',
  'reattach',
  'ports',
  'watch',
  'stop',
  'pause',
  'snapshot',
  'fork',
  'lifetime',
  'egress',
]

function capabilitiesOf({ capabilities = {}, shell }: MemoryProviderOptions): MemoryCapabilities {
  const wanted = [...abilities, ...(shell ? ['shell' as const] : [])].filter(
    (ability) => capabilities[ability] !== false,
  )
  return Object.freeze(Object.fromEntries(wanted.map((ability) => [ability, 'native']))) as MemoryCapabilities
}

function createOptionsOf(capabilities: MemoryCapabilities, more: readonly CreateOption[]): CreateOption[] {
  const usual: CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'runtime',
    'ports',
    'network',
    'repo',
    'gitToken',
  ]
  if (capabilities.lifetime) usual.push('lifetimeMs')
  if (capabilities.snapshot) usual.push('snapshotId')
  return [...new Set([...usual, ...more])]
}

function notFound(message: string, hint?: string): SandboxError {
  return new SandboxError('not_found', message, {
    provider: 'memory',
    hint,
  })
}
