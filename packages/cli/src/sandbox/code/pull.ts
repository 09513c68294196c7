import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Hold } from '@sandkasten/registry'
import { quoteArg, SandboxError } from '@sandkasten/sdk'
import { pullChanges } from '@sandkasten/sdk/recipes'
import { say } from '../../errors.ts'
import { answerTo, canAsk, onStderr } from '../ask.ts'
import type { CodeOptions, PullChoice } from './options.ts'
import { directoryOf } from './place.ts'
import type { Project } from './project.ts'

export interface Pulled {
  readonly branch?: string
  /** The file of a patch. */
  readonly patch?: string
}

/** Asks on a terminal. Without one, nothing is pulled unless --pull says so. */
export async function choosePull(
  { pull, yes, prompt }: CodeOptions,
  { isGit }: Project,
): Promise<PullChoice> {
  if (pull !== undefined) return pull
  if (prompt !== undefined || !canAsk({ yes })) return 'no'
  const { select } = await import('@clack/prompts')
  const branch = { value: 'branch', label: 'as a new branch', hint: 'your files stay as they are' } as const
  return answerTo(
    select<PullChoice>({
      ...onStderr,
      message: 'Pull the changes?',
      initialValue: isGit ? 'branch' : 'patch',
      options: [
        ...(isGit ? [branch] : []),
        { value: 'patch', label: 'as a patch file' },
        { value: 'no', label: 'not now', hint: 'they stay in the sandbox' },
      ],
    }),
  )
}

/** Never touches the working tree, the index or HEAD. `folder`: where patches are kept. */
export async function pull(
  hold: Hold,
  { folder: projectDir, isGit }: Project,
  as: PullChoice,
  { folder, signal }: { folder: string; signal?: AbortSignal },
): Promise<Pulled> {
  if (as === 'no') return {}
  const { name } = hold.record
  const options = { projectDir, remotePath: directoryOf(hold), signal }
  if (as === 'branch') {
    if (!isGit)
      throw new SandboxError(
        'invalid_argument',
        `${projectDir} is no git repository, so it has no branches.`,
        {
          hint: 'Use --pull patch.',
        },
      )
    const { branch } = await pullChanges(hold.handle, { ...options, as, branch: `sandkasten/${name}` })
    if (branch === undefined) return {}
    say(`sandkasten: the changes are on the branch ${branch.name}. Take them over: git merge ${branch.name}`)
    return { branch: branch.name }
  }
  const { patch } = await pullChanges(hold.handle, { ...options, as })
  if (patch === '') return {}
  const file = await save(folder, name, patch)
  say(`sandkasten: the changes are in ${file}. Take them over: git apply ${quoteArg(file)}`)
  return { patch: file }
}

const mostPatches = 1_000

/** Outside of the project, which would upload it the next time. */
async function save(folder: string, name: string, patch: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (let number = 1; number <= mostPatches; number += 1) {
    const file = path.join(folder, `${name}-${number}.patch`)
    try {
      await writeFile(file, patch, { flag: 'wx', mode: 0o600 })
      return file
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
  throw new SandboxError('conflict', `${folder} has ${mostPatches} patches of ${name}.`, {
    hint: 'Remove those that you do not need.',
  })
}
