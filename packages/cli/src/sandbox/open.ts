import { openRegistry, type Registry, type ScopedRegistry } from '@sandkasten/registry'
import { type ProviderKind, providerKinds } from '@sandkasten/sdk/auto'
import type { EnginePlace } from '../engine-place.ts'
import { registryPlace } from '../registry-place.ts'
import { engineKind } from './engine-kind.ts'

export interface Opened extends AsyncDisposable {
  readonly registry: Registry
  /** The sandboxes of the command line. */
  readonly sandboxes: ScopedRegistry
}

/** Every provider of the command line: the engine, which needs no account, and those of the SDK. */
export function kindsAt(engine: EnginePlace): readonly ProviderKind[] {
  return [engineKind(engine), ...providerKinds]
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
