import { randomId } from '../shared/ids.ts'
import type { Trial } from './trial.ts'

/** Files of the machine that runs the kit, for behaviours at its border to a sandbox. Node only. */

export async function hostFile(t: Trial, content: string | Uint8Array): Promise<string> {
  const { mkdtemp, realpath, rm, writeFile } = node('node:fs').promises
  const folder = await mkdtemp(`${await realpath(node('node:os').tmpdir())}/sandkasten-kit-`)
  t.later(() => rm(folder, { recursive: true, force: true }))
  const path = `${folder}/file-${randomId(6)}`.replaceAll('\\', '/')
  await writeFile(path, content)
  return path
}

hostFile.read = async (path: string): Promise<string> => node('node:fs').promises.readFile(path, 'utf8')
hostFile.names = async (path: string): Promise<string[]> =>
  node('node:fs').promises.readdir(path.slice(0, path.lastIndexOf('/')))
hostFile.mode = async (path: string): Promise<number> =>
  (await node('node:fs').promises.stat(path)).mode & 0o777
hostFile.chmod = async (path: string, mode: number): Promise<void> =>
  node('node:fs').promises.chmod(path, mode)

/** Not a static import, so that the table of behaviours loads anywhere. */
function node<M extends 'node:fs' | 'node:os'>(
  name: M,
): M extends 'node:fs' ? typeof import('node:fs') : typeof import('node:os') {
  const module = (globalThis.process as NodeJS.Process | undefined)?.getBuiltinModule?.(name)
  if (!module) throw new Error('This behaviour uses local files and needs Node.')
  return module as ReturnType<typeof node<M>>
}
