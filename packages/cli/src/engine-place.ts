import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import type { EnginePlace } from '@sandkasten/engine'
import type { PlaceOptions } from './options.ts'

const variables = ['ENGINE_DIR', 'DATA_DIR', 'HOME', 'CONFIG', 'RUN_DIR'].map((name) => `SANDKASTEN_${name}`)

/**
 * Locates sandboxes and images: the place that `sandkasten up` would use with these options, folder and environment.
 * Prints it if it is not the default.
 */
export async function enginePlace(options: PlaceOptions): Promise<EnginePlace> {
  const set = variables.filter((name) => process.env[name])
  const isSet = options.config !== undefined || options.dataDir !== undefined || set.length > 0
  // Loading the configuration takes about 100 ms.
  if (!isSet && !existsSync('sandkasten.yaml')) return {}
  const { loadConfig } = await import('@sandkasten/daemon/config')
  const data_dir = options.dataDir === undefined ? undefined : path.resolve(options.dataDir)
  const config = await loadConfig({ file: options.config, overrides: { data_dir } })
  const usual = await loadConfig({ env: {}, cwd: '/nonexistent' })
  if (config.engine_dir !== usual.engine_dir) {
    const from = options.dataDir !== undefined ? '--data-dir' : (config.file ?? set.join(', '))
    console.error(`sandkasten: sandboxes and images are in ${config.engine_dir} (${from}).`)
  }
  return { folder: config.engine_dir, runFolder: config.run_dir }
}

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
  if (variables.every((name) => !process.env[name])) return { data: usualData(), engine: {} }
  const { loadConfig } = await import('@sandkasten/daemon/config')
  const { data_dir, engine_dir, run_dir } = await loadConfig({ cwd: '/nonexistent' })
  return { data: data_dir, engine: { folder: engine_dir, runFolder: run_dir } }
}

function usualData(): string {
  return process.getuid?.() === 0 ? '/var/lib/sandkasten' : path.join(homedir(), '.sandkasten')
}
