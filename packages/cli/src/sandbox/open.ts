import type { EnginePlace } from '@sandkasten/engine'
import { engineKind } from '@sandkasten/engine/kind'
import { openRegistry, type Registry, type ScopedRegistry } from '@sandkasten/registry'
import { type ProviderKind, providerKinds } from '@sandkasten/sdk/auto'
import { say } from '../errors.ts'
import { registryPlace } from '../registry-place.ts'

export interface Opened extends AsyncDisposable {
  readonly registry: Registry
  /** The sandboxes of the command line. */
  readonly sandboxes: ScopedRegistry
}

/** Every provider of the command line: the engine, which needs no account, and those of the SDK. */
export function kindsAt(engine: EnginePlace): readonly ProviderKind[] {
  const ours = engineKind({
    ...engine,
    // Stored secrets come first.
    secrets: (name) => process.env[name],
    onBuild: () => say('sandkasten: building the runner, once…'),
    onWarning: (message) => console.error(`sandkasten: ${message}`),
  })
  return [ours, ...providerKinds]
}

export async function kindsHere(): Promise<readonly ProviderKind[]> {
  return kindsAt((await registryPlace()).engine)
}

/** Opens the registry of this account. */
export async function openHere(): Promise<Opened> {
  const { data, engine } = await registryPlace()
  const registry = await openRegistry({
    // Another data folder has other sandboxes of the engine, and so another registry.
    dataDir: data,
    kinds: kindsAt(engine),
    defaultProvider: 'engine',
  })
  return {
    registry,
    sandboxes: registry.in(),
    [Symbol.asyncDispose]: () => registry.close(),
  }
}
