import { SandboxError } from '@sandkasten/sdk'
import {
  type ProviderKind,
  type ProviderSettings,
  requiredSets,
  settingsFromVariables,
} from '@sandkasten/sdk/auto'
import { suggest } from '../names.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** The providers that this registry can use. */
export class Kinds {
  readonly all: readonly ProviderKind[]

  constructor(all: readonly ProviderKind[]) {
    const names = all.map(({ provider }) => provider)
    const twice = names.find((name, at) => names.indexOf(name) !== at)
    if (twice !== undefined)
      throw new SandboxError('invalid_argument', `The provider “${twice}” is in \`kinds\` twice.`)
    this.all = all
  }

  /** Throws `not_found` with similar names. */
  get(provider: string): ProviderKind {
    const kind = this.find(provider)
    if (kind) return kind
    const names = this.all.map((one) => one.provider)
    const near = suggest(provider, names)
    const shown = /^[\x20-\x7e]{1,60}$/.test(provider)
      ? `There is no provider “${provider}”.`
      : 'There is no such provider.'
    throw new SandboxError('not_found', shown, {
      hint:
        near.length > 0
          ? `Did you mean ${near.map((name) => `“${name}”`).join(' or ')}?`
          : `Use one of ${names.join(', ')}.`,
      details: { suggestions: near },
    })
  }

  find(provider: string): ProviderKind | undefined {
    return this.all.find((kind) => kind.provider === provider)
  }
}

/** Whether the provider works without any setting. */
export function needsNothing(kind: ProviderKind): boolean {
  return requiredSets(kind).some((set) => set.length === 0)
}

/** The settings that the environment gives, if they are complete. For a provider that needs none, always an object. */
export function settingsOfEnvironment(kind: ProviderKind, env: Environment): ProviderSettings | undefined {
  const settings = settingsFromVariables(kind, env)
  return requiredSets(kind).some((set) => set.every((name) => name in settings)) ? settings : undefined
}

/** The variables that set this provider up, for a hint: `DAYTONA_API_KEY`. */
export function variablesOf(kind: ProviderKind): string[] {
  const set = requiredSets(kind)[0] ?? []
  return kind.fields.flatMap(({ name, variable }) => (set.includes(name) && variable ? [variable] : []))
}
