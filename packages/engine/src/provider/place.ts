import { EngineProvider, type EngineProviderOptions, rootBelow } from './engine-provider.ts'

/** Where the engine keeps sandboxes of every isolator. */
export interface EnginePlace {
  /** Default: see `EngineProviderOptions.root`. */
  readonly folder?: string
  /** Folder for sockets. */
  readonly runFolder?: string
}

/** An engine at a place. Each isolator has its own folder there, so the place is the same for all of them. */
export function engineAt(
  { folder, runFolder }: EnginePlace,
  options: EngineProviderOptions = {},
): EngineProvider {
  const placed = { ...options, oci: { runFolder, ...options.oci }, docker: { runFolder, ...options.docker } }
  const root = folder === undefined ? options.root : rootBelow(folder, placed)
  return new EngineProvider({ ...placed, root })
}
