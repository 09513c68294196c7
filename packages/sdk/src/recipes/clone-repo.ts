import { SandboxError } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import { cloneCommand, redact } from '../shared/git-clone.ts'
import type { CommandResult } from '../spec/index.ts'
import { checkLimit, checkOptions, invalid, remoteFolder } from './checks.ts'
import { alsoLeft } from './clean-up.ts'
import { remoteGit } from './remote/tools.ts'
import type { CloneRepoOpts, CloneResult, RecipeSandbox } from './types.ts'

/**
 * Clones a repository inside the sandbox. The token is only in the environment of that git process: not in an
 * argument, file, result or error. A failed or cancelled clone leaves the folder unchanged.
 */
export async function cloneRepo(sandbox: RecipeSandbox, opts: CloneRepoOpts): Promise<CloneResult> {
  checkOptions(opts, ['url', 'token', 'username', 'branch', 'depth', 'path', 'signal'], 'cloneRepo()')
  const { url, token, username, branch, signal } = opts
  for (const [option, value] of Object.entries({ url, token, username, branch })) {
    const wrong = typeof value !== 'string' || value === '' || /[\0\r\n]/.test(value)
    if (wrong && (option === 'url' || value !== undefined))
      throw invalid(`\`${option}\` must be a non-empty string of one line.`)
  }
  const depth = opts.depth === undefined ? undefined : checkLimit(opts.depth, 'depth', 1)
  const path = remoteFolder(sandbox, opts.path, 'path')
  const command = withTokenHint(() => cloneCommand({ url, token, username, branch, depth, target: path }))
  throwIfAborted(signal, 'The clone')
  const existed = await emptyFolder(sandbox, path, signal)
  try {
    const result = await sandbox.runCommand({ ...command, signal })
    if (result.exitCode !== 0) throw cloneError(opts, result)
    const head = await remoteGit(sandbox, path, ['rev-parse', '--verify', '--quiet', 'HEAD'], { signal })
    const ref = await remoteGit(sandbox, path, ['symbolic-ref', '--quiet', '--short', 'HEAD'], { signal })
    return {
      path,
      head: head.exitCode === 0 ? head.stdout.trim() : undefined,
      branch: ref.exitCode === 0 ? ref.stdout.trim() : undefined,
    }
  } catch (error) {
    await restore(sandbox, path, existed).catch((problem) => {
      throw alsoLeft(error, problem, path)
    })
    if (!SandboxError.is(error, 'command_not_found')) throw error
    throw new SandboxError('command_not_found', 'The sandbox has no git program.', {
      hint: 'Install git in the sandbox, or send the files with uploadProject() instead.',
      cause: error,
    })
  }
}

/** Whether the folder exists. Rejects a folder that is not empty, before any work. */
async function emptyFolder(
  sandbox: RecipeSandbox,
  path: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  let names: string[]
  try {
    names = await sandbox.files.readdir(path, { signal })
  } catch (error) {
    if (SandboxError.is(error, 'file_not_found')) return false
    throw error
  }
  if (names.length === 0) return true
  throw new SandboxError('directory_not_empty', `The folder ${path} in the sandbox is not empty.`, {
    hint: 'Set path to a new or empty folder.',
  })
}

async function restore(sandbox: RecipeSandbox, path: string, existed: boolean): Promise<void> {
  if (!existed) return sandbox.files.rm(path, { recursive: true, force: true })
  for (const name of await sandbox.files.readdir(path))
    await sandbox.files.rm(`${path}/${name}`, { recursive: true, force: true })
}

function cloneError({ url, token, username }: CloneRepoOpts, result: CommandResult): SandboxError {
  const said = redact(result.stderr, token, username).trim().slice(-500)
  return new SandboxError(
    'provider_error',
    `git could not clone ${url} (exit code ${result.exitCode}): ${said}`,
    {
      hint:
        token === undefined
          ? {
              sdk: 'Check url and branch; for a private repository pass token.',
              http: 'Check the address and the branch; a private repository needs a token.',
              cli: 'Check the address; for a private repository pass --git-token-env VARIABLE.',
            }
          : 'Check the address and the branch, and that the token can read this repository.',
      details: { exitCode: result.exitCode },
    },
  )
}

/** `create({ gitToken })` uses the same check; here the option is called `token`. */
function withTokenHint<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    if (!SandboxError.is(error)) throw error
    throw new SandboxError(error.code, error.message, { hint: error.hint.replaceAll('gitToken', 'token') })
  }
}
