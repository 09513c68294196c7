import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import { checkKnown } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { mapLimit } from '../../shared/calls/map-limit.ts'
import { leaving, undoneOnAbort, unmade } from '../../shared/calls/undo.ts'
import { randomId } from '../../shared/ids.ts'
import { pageOf } from '../../shared/page.ts'
import { mappedRuntime } from '../../shared/runtime.ts'
import type { CallOptions, CreateOption, ListSandboxesOpts, SandboxPage } from '../../spec/index.ts'
import type { Account } from './account.ts'
import { type HopxCapabilities, hopxCapabilities } from './capabilities.ts'
import { Guest } from './guest/guest.ts'
import { Marks } from './marks.ts'
import { HopxSandbox, type SandboxHome } from './sandbox.ts'
import {
  infoOf,
  markOf,
  markText,
  markVariable,
  notRunning,
  statusOf,
  type VendorSandbox,
} from './translation.ts'

/** Options of create() that only this vendor has. */
export interface HopxCreateOptions {
  /** Instead of the provider's region. */
  region?: string
  /** A template by its id; `image` is a template's name. */
  templateId?: string
}

const vendorOptions = ['region', 'templateId'] satisfies Array<keyof HopxCreateOptions>

export interface HopxDefaults {
  readonly template: string
  readonly region: string | undefined
  readonly runtimes: Readonly<Record<string, string>>
  readonly startMs: number
}

export class HopxDriver implements ProviderDriver<HopxCapabilities>, SandboxHome {
  readonly name = 'hopx'
  readonly isolation = 'vm'
  readonly capabilities = hopxCapabilities
  readonly createOptions: readonly CreateOption[] = [
    'label',
    'labels',
    'envVars',
    'lifetimeMs',
    'image',
    'runtime',
    'ports',
    'network',
    'repo',
    'gitToken',
    'providerOptions',
  ]
  readonly snapshotInterrupts = false
  readonly account: Account
  readonly marks: Marks
  readonly #defaults: HopxDefaults

  constructor(account: Account, defaults: HopxDefaults) {
    this.account = account
    this.marks = new Marks(account)
    this.#defaults = defaults
  }

  async create(spec: CreateSpec, { signal }: CallOptions): Promise<HopxSandbox> {
    const createId = randomId()
    const mark = markText(spec, createId)
    const envVars = { ...spec.envVars, [markVariable]: mark }
    const body = this.#createBody(spec, envVars)
    const what = 'Creating the sandbox'
    throwIfAborted(signal, what)
    const making = this.account.create(body).catch(async (error: unknown) => {
      if (SandboxError.is(error, ...unsure))
        await unmade(error, () => this.#unmake(createId), `the sandbox of create ${createId}`)
      throw error
    })
    const made = await undoneOnAbort(making, ({ id }) => this.account.remove(id, {}), signal, what)
    try {
      const running = await this.settled(made.id, 'running', { signal })
      const guest = new Guest(this.account, { ...made, ...running })
      await this.#responding(guest, envVars, { signal })
      this.marks.set(made.id, markOf(mark))
      const network = spec.network === undefined ? running.internetAccess : spec.network === 'open'
      return new HopxSandbox(this, { ...running, internetAccess: network }, guest, spec.ports)
    } catch (error) {
      await this.account.remove(made.id, {}).catch((cleanUp: unknown) => {
        throw SandboxError.is(error) ? leaving(error, made.id, cleanUp) : error
      })
      throw error
    }
  }

  async open(sandboxId: string, { resume }: { resume: boolean }, call: CallOptions): Promise<HopxSandbox> {
    let vendor = await this.account.info(sandboxId, call)
    if (resume) {
      if (statusOf(vendor) === 'paused') await this.account.resume(sandboxId, call)
      if (statusOf(vendor) !== 'running') vendor = await this.settled(sandboxId, 'running', call)
    }
    const running = statusOf(vendor) === 'running'
    const guest = running ? await this.bound(vendor, call) : undefined
    return new HopxSandbox(this, vendor, guest, (await this.marks.of(vendor, call))?.ports)
  }

  async bound(vendor: VendorSandbox, call: CallOptions): Promise<Guest> {
    const guest = new Guest(this.account, vendor)
    await guest.bind(call)
    return guest
  }

  /** Waits until the vendor has finished changing the sandbox. Throws if it reaches another state. */
  async settled(sandboxId: string, wanted: 'running' | 'paused', call: CallOptions): Promise<VendorSandbox> {
    const begin = Date.now()
    const passing = wanted === 'running' ? ['creating', 'paused'] : ['running']
    for (;;) {
      const vendor = await this.account.info(sandboxId, call)
      const status = statusOf(vendor)
      if (status === wanted) return vendor
      // A state that we do not know may pass, too.
      if (status !== 'unknown' && !passing.includes(status)) throw notRunning(sandboxId, vendor.status)
      if (Date.now() - begin > this.#defaults.startMs)
        throw new SandboxError('timeout', `The sandbox ${sandboxId} is still “${vendor.status}”.`, {
          provider: 'hopx',
          sandboxId,
          details: { state: vendor.status },
          hint: 'Try again later, or raise `startTimeoutMs` of the provider.',
        })
      await new Promise((resolve) => setTimeout(resolve, lookMs))
      throwIfAborted(call.signal)
    }
  }

  /** The vendor has no names. */
  async find(): Promise<undefined> {
    return undefined
  }

  async list(filter: ListSandboxesOpts, call: CallOptions): Promise<SandboxPage> {
    if (filter.name !== undefined) return []
    const all = await this.account.list(call)
    const infos = await mapLimit(all, atOnce, async (vendor) => {
      const mark = await this.marks.of(vendor, call)
      return mark && infoOf(vendor, mark)
    })
    return pageOf(
      infos.filter((info) => info !== undefined),
      filter,
    )
  }

  async destroy(sandboxId: string, call: CallOptions): Promise<boolean> {
    const removed = await this.account.remove(sandboxId, call)
    this.marks.forget(sandboxId)
    return removed
  }

  /** Checks that the API is reachable and accepts the key; the vendor's own check needs no key. */
  async health(call: CallOptions): Promise<boolean> {
    try {
      await this.account.list(call, 1)
      return true
    } catch (error) {
      if (SandboxError.is(error, 'aborted', 'sdk_missing')) throw error
      return false
    }
  }

  #createBody(spec: CreateSpec, envVars: Readonly<Record<string, string>>): Record<string, unknown> {
    const { image, runtime, network, lifetimeMs = defaultLifetimeMs, providerOptions = {} } = spec
    checkKnown(providerOptions, vendorOptions, '`providerOptions` of hopx')
    const { region = this.#defaults.region, templateId } = providerOptions as HopxCreateOptions
    if (templateId !== undefined && (image ?? runtime) !== undefined)
      throw new SandboxError(
        'invalid_argument',
        '`providerOptions.templateId` and another template are given.',
        {
          provider: 'hopx',
          hint: 'Pass only one of templateId, image and runtime.',
        },
      )
    const named =
      runtime === undefined ? image : mappedRuntime('hopx', runtime, this.#defaults.runtimes, 'template')
    return {
      ...(templateId === undefined
        ? { template_name: named ?? this.#defaults.template }
        : { template_id: templateId }),
      ...(region === undefined ? {} : { region }),
      ...(network === undefined ? {} : { internet_access: network === 'open' }),
      timeout_seconds: Math.ceil(lifetimeMs / 1000),
      env_vars: envVars,
    }
  }

  /** A new sandbox refuses connections until the vendor's agent in it has started. */
  async #responding(guest: Guest, envVars: Record<string, string>, call: CallOptions): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await guest.setEnv(envVars, call)
        return await guest.bind(call)
      } catch (error) {
        if (attempt >= tries || !SandboxError.is(error, 'unavailable', 'connection_lost')) throw error
        await new Promise((resolve) => setTimeout(resolve, attempt * lookMs))
        throwIfAborted(call.signal)
      }
    }
  }

  /** Removes the sandbox of a create call after its response was lost. The mark identifies the sandbox. */
  async #unmake(createId: string): Promise<void> {
    const begin = Date.now()
    for (;;) {
      const all = await this.account.list({})
      const marks = await mapLimit(all, atOnce, (vendor) => this.marks.of(vendor, {}))
      for (const [at, vendor] of all.entries())
        if (marks[at]?.createId === createId) await this.account.remove(vendor.id, {})
      // A sandbox in creation cannot tell its mark yet.
      if (!all.some((vendor) => statusOf(vendor) === 'creating') || Date.now() - begin > unmakeMs) return
      await new Promise((resolve) => setTimeout(resolve, lookMs))
    }
  }
}

/** Errors of a create that may still have made a sandbox, because only the response was lost. */
const unsure = ['timeout', 'connection_lost', 'unavailable', 'provider_error', 'aborted'] as const
/** The vendor’s default is no end. */
const defaultLifetimeMs = 24 * 60 * 60_000
const lookMs = 250
const tries = 5
const unmakeMs = 10_000
const atOnce = 8
