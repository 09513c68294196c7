import { SandboxError } from '../errors.ts'
import type { Ability, Capabilities, Needs, PartOf } from '../spec/index.ts'

/**
 * Whether a sandbox or provider has an ability. Narrows the type:
 *
 *     if (supports(sandbox, 'snapshot')) await sandbox.snapshot()
 */
export function supports<
  S extends { readonly capabilities: Capabilities; readonly sandboxId: string },
  A extends Ability,
>(
  sandbox: S,
  ability: A,
): sandbox is S & Needs<A> & PartOf<A, 'sandbox'> & { readonly files: PartOf<A, 'files'> }
export function supports<P extends { readonly capabilities: Capabilities }, A extends Ability>(
  provider: P,
  ability: A,
): provider is P & Needs<A> & PartOf<A, 'provider'>
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
