import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { abortable, abortedError, throwIfAborted } from '../../shared/calls/abort.ts'
import { leaving, undoneOnAbort } from '../../shared/calls/undo.ts'
import { randomId } from '../../shared/ids.ts'
import { pageOf } from '../../shared/page.ts'
import type {
  CallOptions,
  CreateOption,
  ListSandboxesOpts,
  SandboxInfo,
  SandboxPage,
  SnapshotInfo,
} from '../../spec/index.ts'
import { type DaytonaCapabilities, daytonaCapabilities } from './capabilities.ts'
import { createParams } from './create-params.ts'
import { isUnsent, translated, translating } from './errors.ts'
import { gone } from './incarnation.ts'
import type { TimeLimits } from './options.ts'
import { again } from './retry.ts'
import type { DaytonaRuntimes } from './runtimes.ts'
import { DaytonaSandbox } from './sandbox.ts'
import type { DaytonaClient, DaytonaSandboxObject, DaytonaSnapshot } from './sdk.ts'
import { createLabel, infoOf, managedLabel, nameLabel, snapshotPrefix, vendorName } from './translation.ts'
import { awaken, removed, settled } from './wait-until-settled.ts'

export class DaytonaDriver implements ProviderDriver<DaytonaCapabilities> {
  readonly name = 'daytona'
  readonly isolation = 'container'
  readonly capabilities = daytonaCapabilities
  readonly createOptions: readonly CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'snapshotId',
    'image',
    'runtime',
    'ports',
    'resources',
    'network',
    'repo',
    'gitToken',
    'providerOptions',
  ]
  /** The vendor returns the sandbox to its state before; programs keep running. */
  readonly snapshotInterrupts = false
  readonly #client: () => Promise<DaytonaClient>
  readonly #timeLimits: TimeLimits
  readonly #runtimes: DaytonaRuntimes

  constructor(client: () => Promise<DaytonaClient>, timeLimits: TimeLimits, runtimes: DaytonaRuntimes) {
    this.#client = client
    this.#timeLimits = timeLimits
    this.#runtimes = runtimes
  }

  async create(spec: CreateSpec, call: CallOptions): Promise<DaytonaSandbox> {
    const createId = randomId()
    const params = await createParams(spec, createId, this.#runtimes)
    const client = await this.#client()
    throwIfAborted(call.signal, 'Creating the sandbox')
    const creating = client.create(params as never, { timeout: this.#timeLimits.startMs / 1000 })
    const unmake = (made: DaytonaSandboxObject) => removed(made, this.#timeLimits)
    try {
      const made = await undoneOnAbort(creating, unmake, call.signal, 'Creating the sandbox')
      return await DaytonaSandbox.of(client, made, this.#timeLimits, call, spec.network)
    } catch (error) {
      const failure = call.signal?.aborted
        ? abortedError(call.signal, 'Creating the sandbox')
        : translated(error, 'Creating the sandbox')
      throw isUnsent(error) ? failure : await this.#undone(client, createId, failure)
    }
  }

  async open(sandboxId: string, { resume }: { resume: boolean }, call: CallOptions): Promise<DaytonaSandbox> {
    const client = await this.#client()
    const sandbox = await this.#get(sandboxId, call)
    await settled(sandbox, this.#timeLimits, call)
    if (infoOf(sandbox).status === 'destroyed') throw gone(sandboxId)
    if (resume) await awaken(sandbox, this.#timeLimits, call)
    return DaytonaSandbox.of(client, sandbox, this.#timeLimits, call)
  }

  async find(name: string, call: CallOptions): Promise<string | undefined> {
    const client = await this.#client()
    try {
      const found = await this.#do('Looking for the sandbox', client.get(await vendorName(name)), call)
      return found.labels?.[nameLabel] === name && infoOf(found).status !== 'destroyed' ? found.id : undefined
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    }
  }

  async list(filter: ListSandboxesOpts, { signal }: CallOptions): Promise<SandboxPage> {
    const client = await this.#client()
    const infos: SandboxInfo[] = []
    try {
      const labels = { ...filter.labels, [managedLabel]: 'true' }
      for await (const sandbox of client.list({ labels })) {
        throwIfAborted(signal)
        const info = infoOf(sandbox)
        if (info.status !== 'destroyed') infos.push(info)
      }
    } catch (error) {
      throw translated(error, 'Listing sandboxes')
    }
    return pageOf(infos, filter)
  }

  async destroy(sandboxId: string, call: CallOptions): Promise<boolean> {
    try {
      const sandbox = await this.#get(sandboxId, call)
      await this.#do('Destroying', sandbox.delete(this.#timeLimits.startMs / 1000), call)
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  /** Snapshots taken by this library only: the organisation may have others, which a cleanup must not delete. */
  async listSnapshots(call: CallOptions): Promise<SnapshotInfo[]> {
    const client = await this.#client()
    const all: DaytonaSnapshot[] = []
    for (let page = 1; ; page += 1) {
      const { items, totalPages } = await this.#do('Listing snapshots', client.snapshot.list(page, 100), call)
      all.push(...items.filter(({ general, name }) => !general && name.startsWith(snapshotPrefix)))
      if (page >= totalPages || items.length === 0) return all.map(snapshotInfo)
    }
  }

  async deleteSnapshot(snapshotId: string, call: CallOptions): Promise<boolean> {
    const client = await this.#client()
    try {
      await this.#do('Deleting the snapshot', client.snapshot.delete(snapshotId), call)
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  /** Checks that the API is reachable and accepts the key. */
  async health(call: CallOptions): Promise<boolean> {
    const client = await this.#client()
    const look = async () => {
      for await (const _ of client.list({ limit: 1 })) return true
      return true
    }
    try {
      return await this.#do('Asking Daytona', look(), call)
    } catch (error) {
      if (SandboxError.is(error, 'aborted', 'sdk_missing')) throw error
      return false
    }
  }

  /** Postpones the idle stop with the vendor's heartbeat. */
  async refreshActivity(sandboxId: string, call: CallOptions): Promise<void> {
    const sandbox = await this.#get(sandboxId, call)
    await this.#do('Refreshing the activity', sandbox.refreshActivity(), call)
  }

  /** A public link to a port that needs no header and expires. */
  async signedUrl(
    sandboxId: string,
    port: number,
    expiresInSeconds: number,
    call: CallOptions,
  ): Promise<string> {
    const sandbox = await this.#get(sandboxId, call)
    return (await this.#do(`Port ${port}`, sandbox.getSignedPreviewUrl(port, expiresInSeconds), call)).url
  }

  /** Finds a sandbox by id only; the vendor would also accept a name. */
  async #get(sandboxId: string, call: CallOptions): Promise<DaytonaSandboxObject> {
    // The SDK puts the id into a URL path and does not escape everything.
    if (!/^[A-Za-z0-9][\w-]*$/.test(sandboxId)) throw gone(sandboxId)
    const client = await this.#client()
    try {
      const sandbox = await this.#do('Reading the state of the sandbox', client.get(sandboxId), call)
      if (sandbox.id === sandboxId) return sandbox
    } catch (error) {
      if (!SandboxError.is(error, 'not_found')) throw error
    }
    throw gone(sandboxId)
  }

  /**
   * Removes the leftovers of a failed create, and returns its error. They are found by their label. Any failure may leave a
   * sandbox behind, because the SDK waits for the start in the same call and reports a failed wait like a refusal.
   */
  async #undone(client: DaytonaClient, createId: string, failure: SandboxError): Promise<SandboxError> {
    let left = `${createLabel}=${createId}`
    const look = async () => {
      const found: DaytonaSandboxObject[] = []
      for await (const one of client.list({ labels: { [createLabel]: createId } })) found.push(one)
      return found
    }
    try {
      for (const sandbox of await again(() => translating('Cleaning up', undefined, look()), undefined)) {
        left = sandbox.id
        await removed(sandbox, this.#timeLimits)
      }
      return failure
    } catch (cleanUp) {
      // Without access, the create cannot have made anything: report only its failure.
      const isClosed = (error: unknown) => SandboxError.is(error, 'unauthenticated', 'forbidden')
      return isClosed(failure) && isClosed(cleanUp) ? failure : leaving(failure, left, cleanUp)
    }
  }

  #do<T>(what: string, work: Promise<T>, { signal }: CallOptions): Promise<T> {
    return abortable(translating(what, undefined, work), signal, what)
  }
}

function snapshotInfo({ name, size, createdAt, sourceSandboxId }: DaytonaSnapshot): SnapshotInfo {
  return {
    snapshotId: name,
    name: name.slice(snapshotPrefix.length),
    createdAt: createdAt === undefined ? undefined : new Date(createdAt),
    // The vendor counts in GiB.
    sizeBytes: typeof size === 'number' ? Math.round(size * 2 ** 30) : undefined,
    sandboxId: sourceSandboxId || undefined,
  }
}
