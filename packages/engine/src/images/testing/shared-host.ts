import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { collectHostImages } from '../host/garbage.ts'
import { hostImage } from '../host/host.ts'
import { hostRootLayer } from '../host/root.ts'

const shared = fileURLToPath(new URL('../../../../../node_modules/.cache/host-images', import.meta.url))

/**
 * Links the layers of the image `host` into a folder for images. All tests share these layers, because a layer never
 * changes and takes seconds to make: the one for root has a copy of each folder in /usr. Does nothing without root, whom
 * the shared layers belong to.
 */
export async function shareHostLayers(imagesFolder: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { layer, binds } = hostImage(shared)
  const programs = binds.map(({ target }) => target.slice(1))
  const rootLayer = await hostRootLayer(shared, programs)
  // Packages of this machine have changed since an earlier run.
  if (readdirSync(shared).length > 2) collectHostImages(shared)
  mkdirSync(imagesFolder, { recursive: true, mode: 0o700 })
  for (const path of [layer, rootLayer]) {
    const link = join(imagesFolder, basename(path))
    if (!existsSync(link)) symlinkSync(path, link)
  }
}
