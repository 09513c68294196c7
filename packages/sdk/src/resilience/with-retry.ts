import { checkKnown } from '../core/validate.ts'
import { override } from '../shared/override.ts'
import type {
  Capabilities,
  GetOrCreateOpts,
  ProcessHandle,
  SandboxCore,
  SandboxHandle,
  SandboxProvider,
  SandboxProviderCore,
} from '../spec/index.ts'
import { fileCalls, processCalls, providerCalls, type Rule, sandboxCalls } from './repeatable.ts'
import { type CheckedRetry, checkedRetry, type RetryOptions, repeat, retryOptionNames } from './retry.ts'

export type RetrySubject =
  | SandboxCore
  | (Pick<SandboxProviderCore, 'name' | 'isolation' | 'createOptions'> & {
      readonly capabilities: Capabilities
    })

/**
 * Wraps a provider or sandbox: calls that fail with a retryable code are repeated if a repeat has no further effect.
 * Commands never run twice, and nothing is created twice. Returned sandboxes, files and processes are wrapped too.
 * `destroy` may return `false` if an earlier attempt succeeded.
 */
export function withRetry<T extends RetrySubject>(subject: T, options: RetryOptions = {}): T {
  checkKnown(options, retryOptionNames, 'withRetry()')
  const wrap = new Wrap(checkedRetry(options))
  const wrapped =
    'sandboxId' in subject
      ? wrap.sandbox(subject as unknown as SandboxHandle)
      : wrap.provider(subject as unknown as SandboxProvider)
  return wrapped as unknown as T
}

type Method = (...args: unknown[]) => Promise<unknown>

class Wrap {
  readonly #retry: CheckedRetry

  constructor(retry: CheckedRetry) {
    this.#retry = retry
  }

  provider(real: SandboxProvider): SandboxProvider {
    const calls = this.#methods(real, providerCalls)
    return override(real, {
      ...calls,
      create: async (options) => this.sandbox(await calls.create(options)),
      get: async (id, options) => this.sandbox(await calls.get(id, options)),
      getOrCreate: (options) => this.#getOrCreate(real, options),
    } as Partial<SandboxProvider>)
  }

  sandbox(real: SandboxHandle): SandboxHandle {
    return override(real, this.#sandboxMembers(real))
  }

  /** A restricted view is frozen, and so is its wrapper. */
  #restricted(real: ReturnType<SandboxHandle['restricted']>): typeof real {
    const view = Object.assign(Object.create(null), real)
    const members = this.#sandboxMembers(real as SandboxHandle) as Record<string, unknown>
    for (const name of Object.keys(view)) if (name in members) view[name] = members[name]
    return Object.freeze(view)
  }

  #sandboxMembers(real: SandboxHandle): Partial<SandboxHandle> {
    const calls = this.#methods(real, sandboxCalls)
    const process = async (handle: Promise<unknown>) => this.#process((await handle) as ProcessHandle)
    return {
      ...calls,
      files: override(real.files, this.#methods(real.files, fileCalls)),
      restricted: () => this.#restricted(real.restricted()),
      runCommand: (options: { detached?: boolean }) =>
        options?.detached ? process(calls.runCommand(options as never)) : calls.runCommand(options as never),
      spawn: (options) => process(calls.spawn(options)),
      getProcess: (id, options) => process(calls.getProcess(id, options)),
      fork: async (options) =>
        (await calls.fork(options)).map((fork) => (fork instanceof Error ? fork : this.sandbox(fork))),
    } as Partial<SandboxHandle>
  }

  #process(real: ProcessHandle): ProcessHandle {
    return override(real, this.#methods(real, processCalls))
  }

  /**
   * Once the caller's function has begun it is not repeated, because its effects are unknown. With `onCreate`, only
   * a refusal is repeated: after a lost response, the next attempt would find a sandbox that was never set up.
   */
  async #getOrCreate(real: SandboxProvider, options: GetOrCreateOpts): Promise<SandboxHandle> {
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
      const method = (real as Record<string, unknown>)[name]
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
