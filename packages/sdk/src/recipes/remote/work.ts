import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import type { CallOptions } from '../../spec/index.ts'
import { alsoLeft } from '../clean-up.ts'
import { stateFolder } from '../paths.ts'
import type { RecipeSandbox } from '../types.ts'

/**
 * Creates a temporary folder in the project's folder in the sandbox, so that its files can be renamed into place. It
 * is always removed; after a failure, everything else that was created is removed too.
 */
export async function withWorkFolder<T>(
  sandbox: RecipeSandbox,
  root: string,
  { signal }: CallOptions,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const { files } = sandbox
  const made = await firstMissing(sandbox, `${root}/${stateFolder}`, signal)
  const folder = `${root}/${stateFolder}/tmp-${randomId()}`
  // Without the signal: cleanup also runs after a cancelled call.
  const cleanUp = (failed: boolean) =>
    files.rm(failed && made !== undefined ? made : folder, { recursive: true, force: true })
  let result: T
  try {
    await makeFolder(sandbox, root, folder, signal)
    result = await work(folder)
  } catch (error) {
    await cleanUp(true).catch((problem) => {
      if (!SandboxError.is(problem, 'not_a_directory', 'path_outside', 'file_not_found'))
        throw alsoLeft(error, problem, folder)
    })
    throw error
  }
  await cleanUp(false)
  return result
}

async function makeFolder(
  sandbox: RecipeSandbox,
  root: string,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  try {
    await sandbox.files.mkdir(folder, { recursive: true, mode: 0o700, signal })
  } catch (cause) {
    if (!SandboxError.is(cause, 'permission_denied', 'path_outside', 'not_a_directory', 'file_exists'))
      throw cause
    throw new SandboxError(cause.code, `The folder ${root} in the sandbox is not writable.`, {
      hint: `Set remotePath to a folder that the sandbox’s user can write to, such as its working directory ${sandbox.workdir}.`,
      cause,
    })
  }
}

async function firstMissing(
  sandbox: RecipeSandbox,
  path: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  let missing: string | undefined
  for (let at = path; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    try {
      if (await sandbox.files.exists(at, { signal })) break
    } catch (error) {
      // Not visible from this sandbox.
      if (SandboxError.is(error, 'path_outside', 'permission_denied')) break
      throw error
    }
    missing = at
    if (!at.includes('/')) break
  }
  return missing
}
