import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { ChatFile } from '../spec/chat.ts'
import { type InFolder, inFolder } from './in-folder.ts'

/**
 * What a thread has changed since it began, with new files and without ignored ones. The repository’s index, HEAD and
 * files stay as they are: the script works with an index of its own. Arguments: `diff` or `bundle`, the commit that the
 * thread started from or nothing, a name for the branch, the largest size. It prints a file’s path.
 */
const script = `
verb=$1 base=$2 branch=$3 most=$4
command -v git >/dev/null || exit 127
top=$(git rev-parse --show-toplevel 2>/dev/null) && cd "$top" || exit 64
index=$(git rev-parse --git-path index)
# In the repository’s own folder, which files can be read from.
out=$(mktemp -d "$(git rev-parse --path-format=absolute --git-dir)/sandkasten.XXXXXX") || exit 1
[ -e "$index" ] && cp "$index" "$out/index"
export GIT_INDEX_FILE="$out/index"
git add -A . || exit 1
empty=$(git hash-object -t tree /dev/null)
git rev-parse -q --verify "$base^{commit}" >/dev/null 2>&1 || base=
if [ "$verb" = diff ]; then
  git -c core.quotePath=true diff --cached --binary --no-color --no-ext-diff --no-textconv "\${base:-$empty}" >"$out/result" || exit 1
else
  tree=$(git write-tree) || exit 1
  head=$(git rev-parse -q --verify HEAD)
  [ -n "$base" ] && [ "$tree" = "$(git rev-parse "$base^{tree}")" ] && [ "$head" = "$base" ] && exit 65
  commit=$head
  if [ -z "$head" ] || [ "$tree" != "$(git rev-parse "$head^{tree}")" ]; then
    commit=$(git -c user.name=sandkasten -c user.email=sandkasten@localhost -c commit.gpgSign=false \\
      commit-tree "$tree" \${head:+-p "$head"} -m "Changes of $branch") || exit 1
  fi
  git update-ref "refs/heads/$branch" "$commit" || exit 1
  git bundle create -q "$out/result" "refs/heads/$branch" \${base:+"^$base"} >&2
  code=$?
  git update-ref -d "refs/heads/$branch"
  [ $code = 0 ] || exit 1
fi
rm -f "$out/index"
[ "$(wc -c <"$out/result")" -le "$most" ] || { rm -rf "$out"; exit 66; }
printf '%s\\n' "$out/result"
`

/** A patch. Empty: nothing has changed. */
export function diff(context: Context, threadId: string, options: CallOptions = {}): Promise<string> {
  return inFolder(context, threadId, { purpose: 'diff', ...options }, async (place) => {
    const bytes = await result(place, 'diff', context.limits.diffBytes)
    return bytes === undefined ? '' : new TextDecoder().decode(bytes)
  })
}

/** The changes as a file: a patch, or a git bundle with a branch. */
export function pull(
  context: Context,
  threadId: string,
  as: 'patch' | 'branch',
  options: CallOptions = {},
): Promise<ChatFile> {
  return inFolder(context, threadId, { purpose: 'pull', ...options }, async (place) => {
    const { record } = place.hold
    const bytes = await result(place, as === 'patch' ? 'diff' : 'bundle', context.limits.bundleBytes)
    if (bytes === undefined || bytes.byteLength === 0)
      throw new SandboxError('not_found', 'This thread has changed nothing.')
    return { name: as === 'patch' ? `${record.name}.patch` : `${record.name}.bundle`, bytes }
  })
}

async function result(
  { hold, thread, cwd, signal }: InFolder,
  verb: 'diff' | 'bundle',
  mostBytes: number,
): Promise<Uint8Array | undefined> {
  const { handle, record } = hold
  const { exitCode, stdout, stderr } = await handle.runCommand({
    cmd: 'sh',
    args: [
      '-c',
      script,
      'sandkasten',
      verb,
      thread.base_commit ?? '',
      `sandkasten/${record.name}`,
      String(mostBytes),
    ],
    cwd,
    signal,
    timeoutMs: 120_000,
    maxOutputBytes: 16_384,
  })
  if (exitCode === 65) return undefined
  const file = stdout.trim()
  if (exitCode !== 0 || !file.startsWith('/')) throw failure(exitCode, stderr, mostBytes)
  try {
    const { size } = await handle.files.stat(file, { signal })
    if (size > mostBytes) throw failure(66, '', mostBytes)
    return await handle.files.readFile(file, { signal })
  } finally {
    await handle.files.rm(file.slice(0, file.lastIndexOf('/')), { recursive: true }).catch(() => {})
  }
}

/** The meaning of the exit codes of the script. */
function failure(exitCode: number, stderr: string, mostBytes: number): SandboxError {
  if (exitCode === 64)
    return new SandboxError('not_found', 'The folder of this thread is no git repository.', {
      hint: 'Ask the agent to run: git init.',
    })
  if (exitCode === 66)
    return new SandboxError(
      'quota_exceeded',
      `The changes are larger than ${Math.floor(mostBytes / 1024)} KiB.`,
      {
        hint: 'Ask the agent to push a branch.',
      },
    )
  if (exitCode === 127)
    return new SandboxError('command_not_found', 'The sandbox has no git.', {
      hint: 'Ask the agent to install git.',
    })
  return new SandboxError('provider_error', `git failed: ${stderr.trim().slice(-500)}`, {
    details: { exitCode },
  })
}
