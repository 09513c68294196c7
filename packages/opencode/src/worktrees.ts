import { type CallOptions, type SandboxCore, SandboxError } from '@sandkasten/sdk'

export interface OpenWorktreeOptions extends CallOptions {
  /** The repository in the sandbox. Default: the sandbox’s `workdir`. */
  directory?: string
  /** The thread. Letters, digits, dots, dashes and underscores. */
  thread: string
}

export interface Worktree {
  /** An absolute path in the sandbox, to pass as `cwd`. */
  readonly path: string
  readonly branch: string
  /** Whether this call made it. */
  readonly created: boolean
  /**
   * Removes the folder. The branch stays. Throws `conflict` if the folder has changes, unless `force` is set. Returns
   * false if it does not exist.
   */
  remove(options?: CallOptions & { force?: boolean }): Promise<boolean>
}

/**
 * A folder and a branch of its own for a thread, so that threads on one sandbox do not change each other’s files. A second
 * call for the same thread finds the same folder.
 */
export async function openWorktree(handle: SandboxCore, options: OpenWorktreeOptions): Promise<Worktree> {
  const { directory = handle.workdir, thread, signal } = options
  if (!/^[A-Za-z0-9][\w.-]{0,62}$/.test(thread) || thread.includes('..') || /\.(lock)?$/.test(thread))
    throw new SandboxError('invalid_argument', 'The name of the thread is invalid.', {
      hint: 'Use up to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit.',
    })
  const call = (verb: string, more: CallOptions = {}) => run(handle, verb, directory, thread, more.signal)
  const { exitCode, stdout, stderr } = await call('open', { signal })
  const [made, path] = stdout.trimEnd().split('\n')
  if (exitCode !== 0 || !path?.startsWith('/')) throw failure(handle, directory, exitCode, stderr)
  return {
    path,
    branch: `thread/${thread}`,
    created: made === 'created',
    async remove({ force = false, ...more } = {}) {
      const removed = await call(force ? 'force' : 'remove', more)
      if (removed.exitCode !== 0) throw failure(handle, path, removed.exitCode, removed.stderr)
      return removed.stdout.startsWith('removed')
    },
  }
}

/** The meaning of the exit codes of the script. */
const codes = {
  64: ['not_found', 'is no git repository', 'Pass the folder of a repository as `directory`.'],
  65: ['conflict', 'has changes', 'Commit them, or pass { force: true }.'],
  66: ['conflict', 'has no commit yet', 'Make a first commit, then open worktrees.'],
  127: ['command_not_found', 'needs git', 'Install git in the sandbox.'],
} as const

function failure(handle: SandboxCore, path: string, exitCode: number, stderr: string): SandboxError {
  const where = { provider: handle.provider, sandboxId: handle.sandboxId }
  const known = codes[exitCode as keyof typeof codes]
  if (!known)
    return new SandboxError('provider_error', `git failed in ${path}: ${stderr.trim().slice(-500)}`, {
      ...where,
      details: { exitCode },
    })
  const [code, words, hint] = known
  return new SandboxError(code, `${path} ${words}.`, { ...where, hint })
}

/**
 * Arguments: the verb, the repository and the thread. Folders are below the home, beside the repository’s checksum, and
 * not in the repository, where tools would find every file twice. `mkdir` is the lock of parallel calls.
 */
const script = `
verb=$1 thread=$3
command -v git >/dev/null || exit 127
cd "$2" && common=$(git rev-parse --path-format=absolute --git-common-dir 2>/dev/null) || exit 64
set -- $(printf '%s' "$common" | cksum)
folder=$HOME/.local/share/sandkasten/worktrees/$1
path=$folder/$thread
case $verb in
open)
  git rev-parse -q --verify HEAD >/dev/null || exit 66
  mkdir -p "$folder" || exit 1
  tries=0
  until mkdir "$folder/.lock" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -gt 300 ] && { rmdir "$folder/.lock"; tries=0; }
    sleep 0.1
  done
  trap 'rmdir "$folder/.lock"' EXIT
  if [ -e "$path/.git" ] && git -C "$path" rev-parse -q --verify HEAD >/dev/null; then made=found; else
    git worktree prune
    if git rev-parse -q --verify "refs/heads/thread/$thread" >/dev/null
    then git worktree add -q --force "$path" "thread/$thread" >&2 || exit 1
    else git worktree add -q --force -b "thread/$thread" "$path" >&2 || exit 1
    fi
    made=created
  fi
  printf '%s\\n%s\\n' "$made" "$path"
  ;;
remove | force)
  [ -e "$path" ] || { git worktree prune; echo absent; exit 0; }
  [ "$verb" = force ] || [ -z "$(git -C "$path" status --porcelain)" ] || exit 65
  git worktree remove --force "$path" >&2 || exit 1
  echo removed
  ;;
esac
`

function run(
  handle: SandboxCore,
  verb: string,
  directory: string,
  thread: string,
  signal: AbortSignal | undefined,
) {
  return handle.runCommand({
    cmd: 'sh',
    args: ['-c', script, 'sandkasten', verb, directory, thread],
    signal,
    timeoutMs: 120_000,
    maxOutputBytes: 65_536,
  })
}
