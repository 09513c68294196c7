import { mapLimit } from '../../shared/calls/map-limit.ts'
import type { CallOptions } from '../../spec/index.ts'
import { parentsOf } from '../paths.ts'
import type { RecipeSandbox } from '../types.ts'
import { run, type Tool } from './tools.ts'

interface RemoveOptions extends CallOptions {
  tools: ReadonlySet<Tool>
}

export async function removePaths(
  sandbox: RecipeSandbox,
  root: string,
  paths: readonly string[],
  { tools, signal }: RemoveOptions,
): Promise<void> {
  if (paths.length === 0) return
  const folders = [...new Set(paths.flatMap(parentsOf))].sort((a, b) => b.length - a.length)
  const list = (names: readonly string[]) => names.map((name) => `./${name}\0`).join('')
  if (tools.has('xargs') && tools.has('rm') && tools.has('rmdir')) {
    const result = await run(sandbox, {
      cmd: 'xargs',
      args: ['-0', 'rm', '-f', '--'],
      cwd: root,
      stdin: list(paths),
      signal,
    })
    if (result.exitCode === 0) {
      // rmdir fails for a folder that is not empty, as intended.
      if (folders.length > 0)
        await run(sandbox, {
          cmd: 'xargs',
          args: ['-0', 'rmdir', '--'],
          cwd: root,
          stdin: list(folders),
          signal,
        })
      return
    }
  }
  await mapLimit(paths, 8, (path) => sandbox.files.rm(`${root}/${path}`, { force: true, signal }))
  for (const folder of folders) {
    const left = await sandbox.files.readdir(`${root}/${folder}`, { signal })
    if (left.length === 0)
      await sandbox.files.rm(`${root}/${folder}`, { recursive: true, force: true, signal })
  }
}
