import { existsSync } from 'node:fs'
import { mkdir, readdir, symlink } from 'node:fs/promises'
import path from 'node:path'

const shared = path.resolve(import.meta.dirname, '../../../../node_modules/.cache/host-images')

/**
 * Gives a daemon with isolated sandboxes the layers of the image `host` that tests of the engine share
 * (`engine/src/images/testing/shared-host.ts`), if there are any. The engine looks for the current ones by name, and makes
 * those that are missing.
 */
export async function linkHostLayers(config: Record<string, unknown>): Promise<void> {
  const { isolator, data_dir, engine_dir } = config
  if (process.getuid?.() !== 0 || isolator !== 'oci' || typeof data_dir !== 'string') return
  const engine = typeof engine_dir === 'string' ? engine_dir : path.join(data_dir, 'engine')
  const names = (await readdir(shared).catch(() => [])).filter((name) => /^host(root)?-\w{16}$/.test(name))
  await mkdir(path.join(engine, 'images'), { recursive: true, mode: 0o700 })
  for (const name of names) {
    const link = path.join(engine, 'images', name)
    if (!existsSync(link)) await symlink(path.join(shared, name), link)
  }
}
