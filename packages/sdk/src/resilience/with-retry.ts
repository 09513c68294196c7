import { checkKnown } from '../core/validate.ts'
import { checkObject } from '../shared/known-options.ts'
import { override } from '../shared/override.ts'
import type {
  CommandResult,
  DetachedCommandOptions,
  GetOrCreateOpts,
  ProcessCore,
  RestrictedSandbox,
  RunCommandOptions,
  SandboxAbilities,
  SandboxCore,
  SandboxFilesCore,
  SandboxHandle,
  SandboxProvider,
} from '../spec/index.ts'
import { fileCalls, processCalls, providerCalls, type Rule, sandboxCalls } from './repeatable.ts'
import { type CheckedRetry, checkedRetry, type RetryOptions, repeat, retryOptionNames } from './retry.ts'

export type RetrySubject = SandboxCore | SandboxProvider

/**
 * Wraps a provider or sandbox: calls that fail with a retryable code are repeated if a repeat has no further effect.
 * Commands never run twice, and nothing is created twice. Returned sandboxes, files and processes are wrapped too.
 * `destroy` may return `false` if an earlier attempt succeeded.
 */
export function withRetry<T extends RetrySubject>(subject: T, options?: RetryOptions): T
export function withRetry(subject: RetrySubject, options: RetryOptions = {}): RetrySubject {
  checkKnown(options, retryOptionNames, 'withRetry()')
  const wrap = new Wrap(checkedRetry(options))
  return 'sandboxId' in subject ? wrap.sandbox(subject) : wrap.provider(subject)
}

type Method = (...args: unknown[]) => Promise<unknown>
/** A handle or a restricted view. Methods that it lacks stay absent. */
type AnySandbox = Partial<SandboxCore & SandboxAbilities>

class Wrap {
  readonly #retry: CheckedRetry

  constructor(retry: CheckedRetry) {
    this.#retry = retry
  }

  provider<T extends SandboxProvider>(real: T): T {
    const calls = this.#methods<SandboxProvider>(real, providerCalls)
    return override<T, SandboxProvider>(real, {
      ...calls,
      create: async (options) => this.sandbox(await calls.create(options)),
      get: async (id, options) => this.sandbox(await calls.get(id, options)),
      getOrCreate: (options) => this.#getOrCreate(real, options),
      listHandles: async (options) => {
        const page = await calls.listHandles(options)
        for (const [at, handle] of page.entries()) page[at] = this.sandbox(handle)
        return page
      },
    })
  }

  sandbox<T extends SandboxCore>(real: T): T {
    return override<T, AnySandbox>(real, this.#members(real))
  }

  /** A restricted view is frozen, and so is its wrapper. */
  #restricted<T extends RestrictedSandbox>(real: T): T {
    const view = Object.assign(Object.create(null), real)
    const members = this.#members(real)
    for (const name of Object.keys(view)) if (name in members) view[name] = Reflect.get(members, name)
    return Object.freeze(view)
  }

  #members(real: AnySandbox): AnySandbox {
    const calls = this.#methods(real, sandboxCalls)
    const { spawn, getProcess, fork, restricted } = calls
    return {
      ...calls,
      files: real.files && this.#files(real.files),
      restricted: restricted && (() => this.#restricted(restricted())),
      runCommand: calls.runCommand && this.#runCommand(calls.runCommand),
      spawn: spawn && (async (options) => this.#process(await spawn(options))),
      getProcess: getProcess && (async (id, options) => this.#process(await getProcess(id, options))),
      fork:
        fork &&
        (async (options) =>
          (await fork(options)).map((made) => (made instanceof Error ? made : this.sandbox(made)))),
    }
  }

  #runCommand(run: SandboxCore['runCommand']): SandboxCore['runCommand'] {
    const wrapped = (handle: ProcessCore) => this.#process(handle)
    function runCommand(options: DetachedCommandOptions): Promise<ProcessCore>
    function runCommand(options: RunCommandOptions): Promise<CommandResult>
    function runCommand(options: RunCommandOptions | DetachedCommandOptions) {
      return options?.detached ? run(options).then(wrapped) : run(options)
    }
    return runCommand
  }

  #files(real: SandboxFilesCore): SandboxFilesCore {
    return override(real, this.#methods(real, fileCalls))
  }

  #process<T extends ProcessCore>(real: T): T {
    return override<T, ProcessCore>(real, this.#methods<ProcessCore>(real, processCalls))
  }

  /**
   * Once the caller's function has begun it is not repeated, because its effects are unknown. With `onCreate`, only
   * a refusal is repeated: after a lost response, the next attempt would find a sandbox that was never set up.
   */
  async #getOrCreate(real: SandboxProvider, options: GetOrCreateOpts): Promise<SandboxHandle> {
    checkObject(options, 'getOrCreate()', "For example { name: 'demo' }.")
    let begun = false
    const once = (own: GetOrCreateOpts['onCreate']) => (sandbox: SandboxHandle) => {
      begun = true
      return own?.(this.sandbox(sandbox))
    }
    const { onCreate, onResume, signal } = options
    return this.sandbox(
      await repeat(
        () =>
          real.getOrCreate({
            ...options,
            onCreate: onCreate && once(onCreate),
            onResume: onResume && once(onResume),
          }),
        this.#retry,
        { call: 'getOrCreate', may: () => !begun, signal, only: onCreate ? ['rate_limited'] : undefined },
      ),
    )
  }

  #methods<T extends object>(real: T, rules: Readonly<Record<string, Rule>>): T {
    const methods: Record<string, Method> = {}
    for (const [name, rule] of Object.entries(rules)) {
      const method: unknown = Reflect.get(real, name)
      if (typeof method !== 'function') continue
      const call: Method = (...args) => method.apply(real, args)
      methods[name] = rule === 'never' ? call : (...args) => this.#call(name, rule, call, args)
    }
    return methods as T
  }

  #call(name: string, rule: Rule, call: Method, args: unknown[]): Promise<unknown> {
    if (typeof rule === 'function' && !rule(...args)) return call(...args)
    const { signal } = (args.at(-1) ?? {}) as { signal?: AbortSignal }
    return repeat(() => call(...args), this.#retry, {
      call: name,
      signal,
      only: rule === 'refused' ? ['rate_limited'] : undefined,
    })
  }
}
