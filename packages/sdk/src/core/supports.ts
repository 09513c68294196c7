import { SandboxError } from '../errors.ts'
import type { Ability, Capabilities, Parts, SandboxCore, SandboxProviderCore } from '../spec/index.ts'

/** The methods that an ability brings, for a sandbox with unknown other abilities. */
type With<A extends Ability> = Parts<{ readonly [K in A]: 'native' }, 'sandbox'> & {
  readonly files: Parts<{ readonly [K in A]: 'native' }, 'files'>
}

/** A provider with any abilities: one of `SandboxProviderCore<C>` for some C. */
type AnyProvider = Pick<SandboxProviderCore, 'name' | 'isolation' | 'createOptions'> & {
  readonly capabilities: Capabilities
}

/**
 * Whether a sandbox, or a provider, has an ability; inside the `if` its methods are there.
 *
 *     if (supports(sandbox, 'snapshot')) await sandbox.snapshot()
 */
export function supports<S extends SandboxCore<Capabilities>, A extends Ability>(
  sandbox: S,
  ability: A,
): sandbox is S & With<A>
export function supports<P extends AnyProvider, A extends Ability>(
  provider: P,
  ability: A,
): provider is P & Parts<{ readonly [K in A]: 'native' }, 'provider'>
export function supports(subject: { readonly capabilities: Capabilities }, ability: Ability): boolean {
  return subject.capabilities[ability] !== undefined
}

export function unsupported(owner: { provider: string }, ability: Ability): SandboxError {
  return new SandboxError(
    'unsupported',
    `The provider “${owner.provider}” cannot do this: it has no ability “${ability}”.`,
    {
      provider: owner.provider,
      details: { ability },
      hint: {
        sdk: `Check supports(sandbox, '${ability}') first, or choose a provider that has it.`,
        http: 'Use a daemon with another isolator.',
        cli: 'Use another isolator.',
      },
    },
  )
}
