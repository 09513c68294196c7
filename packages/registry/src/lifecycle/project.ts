import path from 'node:path'
import type { SandboxHandle } from '@sandkasten/sdk'
import { cloneRepo, uploadProject } from '@sandkasten/sdk/recipes'
import type { CreateOptions } from '../types.ts'
import { type Run, tell } from './run.ts'

/** Clones or uploads the project, and returns its folder in the sandbox. */
export async function fillProject(run: Run, handle: SandboxHandle, options: CreateOptions): Promise<string> {
  const { repo, gitToken, upload } = options
  const { signal } = run.lease
  if (repo !== undefined) {
    tell(run, { step: 'clone', message: `cloning ${repo}` })
    const target = await emptyFolder(handle, repo, signal)
    return (await cloneRepo(handle, { url: repo, token: gitToken, path: target, signal })).path
  }
  if (upload === undefined) return handle.workdir
  tell(run, { step: 'upload', message: `uploading ${path.resolve(upload)}` })
  const { remotePath } = await uploadProject(handle, {
    projectDir: upload,
    onProgress: ({ phase, done, total }) =>
      tell(run, { step: 'upload', message: phase === 'send' ? 'sending files' : phase, done, total }),
    signal,
  })
  return remotePath
}

/** The working directory; if it has content already, such as a user's home, a folder in it named after the repository. */
async function emptyFolder(handle: SandboxHandle, repo: string, signal: AbortSignal): Promise<string> {
  const names = await handle.files.readdir(handle.workdir, { signal })
  if (names.length === 0) return handle.workdir
  const last = repo
    .replace(/[/\\]+$/, '')
    .replace(/\.git$/, '')
    .split(/[/\\:]/)
    .at(-1)
  const name = last && /^[\w][\w.-]*$/.test(last) ? last : 'project'
  return path.posix.join(handle.workdir, name)
}
