import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { locateRunner } from '@sandkasten/engine'

/**
 * Builds an image in the format of `docker save` with the local tar. It contains one program: the runner, as `/tool`.
 */
export async function makeArchive(archive: string): Promise<void> {
  const folder = await mkdtemp(path.join(path.dirname(archive), 'tool-'))
  const run = promisify(execFile)
  const layer = path.join(folder, 'layer')
  await mkdir(layer)
  await run('cp', [await locateRunner(), path.join(layer, 'tool')])
  const tar = path.join(folder, 'layer.tar')
  await run('tar', ['-C', layer, '--owner=0', '--group=0', '-cf', tar, 'tool'])
  const { stdout } = await run('sha256sum', [tar])
  const config = { os: 'linux', rootfs: { type: 'layers', diff_ids: [`sha256:${stdout.slice(0, 64)}`] } }
  await writeFile(path.join(folder, 'config.json'), JSON.stringify(config))
  const manifest = [{ Config: 'config.json', RepoTags: ['tool:1'], Layers: ['layer.tar'] }]
  await writeFile(path.join(folder, 'manifest.json'), JSON.stringify(manifest))
  await run('tar', ['-C', folder, '-cf', archive, 'manifest.json', 'config.json', 'layer.tar'])
  await rm(folder, { recursive: true })
}
