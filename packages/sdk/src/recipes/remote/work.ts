import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import type { CallOptions } from '../../spec/index.ts'
import { alsoLeft } from '../clean-up.ts'
import { stateFolder } from '../paths.ts'
import type { RecipeSandbox } from '../types.ts'

/**
 * A folder of our own for the time of the work, in the project's folder in the sandbox, so that what is made in
 * it can be renamed into place. It is removed whatever happens; after a failure so is all else that was made here.
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
  // Without the signal: what was made goes away also after a cancelled call.
  const cleanUp = (failed: boolean) =>
    files.rm(failed && made !== undefined ? made : folder, { recursive: true, force: true })
  let result: T
  try {
    await makeFolder(sandbox, root, folder, signal)
    result = await work(folder)
  } catch (error) {
    await cleanUp(true).catch((problem) => {
      // Where no folder could be made there is none to remove.
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
    throw new SandboxError(cause.code, `The folder ${root} in the sandbox cannot be written to.`, {
      hint: `Set remotePath to a folder that the sandbox’s user may write to, such as its working directory ${sandbox.workdir}.`,
      cause,
    })
  }
}

/** The outermost folder of a path that is not there yet. */
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
      // Above what this sandbox lets us see.
      if (SandboxError.is(error, 'path_outside', 'permission_denied')) break
      throw error
    }
    missing = at
    if (!at.includes('/')) break
  }
  return missing
}
