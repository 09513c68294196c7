import { existsSync } from 'node:fs'
import path from 'node:path'
import type { EnginePlace } from '@sandkasten/engine'
import type { PlaceOptions } from './options.ts'
import { placeVariables } from './registry-place.ts'

/**
 * Locates sandboxes and images: the place that `sandkasten up` would use with these options, folder and environment.
 * Prints it if it is not the default.
 */
export async function enginePlace(options: PlaceOptions): Promise<EnginePlace> {
  const set = placeVariables.filter((name) => process.env[name])
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
