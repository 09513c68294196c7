import { createHash } from 'node:crypto'
import { chmodSync, lstatSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { randomId } from '@sandkasten/sdk/provider'
import { FAKE_SUDO } from './host/sudo.ts'

/**
 * The layers of an image for a sandbox whose user is root. If the image has no `sudo`, a layer below all others adds it,
 * so that instructions written for other users work.
 */
export function withSudo(layers: readonly string[], imagesFolder: string): readonly string[] {
  return layers.some(hasSudo) ? layers : [...layers, sudoLayer(imagesFolder)]
}

/** Changes with the script. */
export const sudoLayerName = `sudo-${createHash('sha256').update(FAKE_SUDO).digest('hex').slice(0, 16)}`

const places = ['usr/bin/sudo', 'usr/local/bin/sudo', 'usr/sbin/sudo', 'bin/sudo', 'sbin/sudo']

/** Follows no link of the image, which could lead to a file of this machine. */
function hasSudo(layer: string): boolean {
  return places.some((place) => {
    const parts = place.split('/')
    const folders = parts.slice(0, -1).map((_, at) => join(layer, ...parts.slice(0, at + 1)))
    const isFolder = (path: string) => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true
    return folders.every(isFolder) && lstatSync(join(layer, place), { throwIfNoEntry: false }) !== undefined
  })
}

function sudoLayer(imagesFolder: string): string {
  const layer = join(imagesFolder, sudoLayerName)
  if (lstatSync(layer, { throwIfNoEntry: false })) return layer
  mkdirSync(imagesFolder, { recursive: true, mode: 0o700 })
  const draft = `${layer}.${randomId(12)}`
  try {
    for (const folder of ['', 'usr', 'usr/local', 'usr/local/bin']) {
      mkdirSync(join(draft, folder))
      // Set regardless of the umask.
      chmodSync(join(draft, folder), 0o755)
    }
    const file = join(draft, 'usr/local/bin/sudo')
    writeFileSync(file, FAKE_SUDO)
    chmodSync(file, 0o755)
    renameSync(draft, layer)
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    // Another process was faster.
    if (!lstatSync(layer, { throwIfNoEntry: false })) throw error
  }
  return layer
}
