import { homedir } from 'node:os'
import path from 'node:path'
import type { EnginePlace } from '@sandkasten/engine'

/** Variables that choose another place. */
export const placeVariables = ['ENGINE_DIR', 'DATA_DIR', 'HOME', 'CONFIG', 'RUN_DIR'].map(
  (name) => `SANDKASTEN_${name}`,
)

export interface RegistryPlace {
  /** The data folder: it has the registry's database and key. */
  readonly data: string
  readonly engine: EnginePlace
}

/**
 * Locates named sandboxes. They must be found from every folder, so only variables count, and not the configuration in
 * the current folder.
 */
export async function registryPlace(): Promise<RegistryPlace> {
  if (placeVariables.every((name) => !process.env[name])) return { data: usualData(), engine: {} }
  const { loadConfig } = await import('@sandkasten/daemon/config')
  const { data_dir, engine_dir, run_dir } = await loadConfig({ cwd: '/nonexistent' })
  return { data: data_dir, engine: { folder: engine_dir, runFolder: run_dir } }
}

function usualData(): string {
  return process.getuid?.() === 0 ? '/var/lib/sandkasten' : path.join(homedir(), '.sandkasten')
}
